package apply

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func configuration(webhooks ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"webhooks": webhooks}}
}

func webhook(name, policy string) map[string]any {
	return map[string]any{"name": name, "failurePolicy": policy}
}

// The leader has set Fail after the configuration was rendered with Ignore.
func TestFailurePoliciesInForceStay(t *testing.T) {
	o := configuration(webhook("a", "Ignore"), webhook("new", "Ignore"))
	live := configuration(webhook("a", "Fail"), webhook("gone", "Fail"))
	require.True(t, takeFailurePolicies(o, live))
	require.Equal(t, configuration(webhook("a", "Fail"), webhook("new", "Ignore")), o)
	require.False(t, takeFailurePolicies(o, live), "nothing is left to take, so the conflict is another one")
}

func TestObjectsWithoutWebhooksTakeNothing(t *testing.T) {
	require.False(t, takeFailurePolicies(&unstructured.Unstructured{}, configuration(webhook("a", "Fail"))))
	require.False(t, takeFailurePolicies(configuration(webhook("a", "Fail"), "no map"), configuration("no map")))
}
