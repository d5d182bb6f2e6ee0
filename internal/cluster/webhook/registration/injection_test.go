package registration

import (
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestOnlyOwnWebhooksGetTheRoots: those whose address is the control plane's Service, by whatever
// name; the others of a configuration stay as they are.
func TestOnlyOwnWebhooksGetTheRoots(t *testing.T) {
	webhook := func(namespace, service, roots string) admissionregistrationv1.MutatingWebhook {
		return admissionregistrationv1.MutatingWebhook{ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service:  &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: service},
			CABundle: []byte(roots),
		}}
	}
	url := "https://elsewhere.example.com/inject"
	present := &admissionregistrationv1.MutatingWebhookConfiguration{
		Webhooks: []admissionregistrationv1.MutatingWebhook{
			webhook("istio-system", "istiod-v2", "old"), webhook("istio-system", "istiod-v2", ""),
			webhook("istio-system", "istiod", "theirs"), webhook("mesh", "istiod-v2", "theirs"),
			{ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: []byte("theirs")}},
		},
	}
	o := &InjectionOptions{Service: types.NamespacedName{Namespace: "istio-system", Name: "istiod-v2"}}
	next, differs := o.trusting(present, []byte("new"))
	require.True(t, differs)
	var roots []string
	for _, w := range next.Webhooks {
		roots = append(roots, string(w.ClientConfig.CABundle))
	}
	require.Equal(t, []string{"new", "new", "theirs", "theirs", "theirs"}, roots)
	require.Equal(t, "old", string(present.Webhooks[0].ClientConfig.CABundle))
	_, differs = o.trusting(next, []byte("new"))
	require.False(t, differs)
	_, differs = o.trusting(present, nil)
	require.False(t, differs, "no roots yet")
}
