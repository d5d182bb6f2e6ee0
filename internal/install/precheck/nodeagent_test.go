package precheck

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type plugin bool

func (p plugin) HasPlugin() bool { return bool(p) }

func TestANodeAgentIsToldWhereTheInjectionIsNotForIt(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{"kind": "DaemonSet"}}
	o.SetLabels(map[string]string{"k8s-app": "istio-cni-node"})
	v, found := NodeAgent(o, plugin(false))
	require.True(t, found)
	require.True(t, v.Go())
	require.Contains(t, v.Differences[0].Why, "want pilot.cni.enabled=true")

	_, found = NodeAgent(o, plugin(true))
	require.False(t, found)
	o.SetLabels(map[string]string{"k8s-app": "calico-node"})
	_, found = NodeAgent(o, plugin(false))
	require.False(t, found)
}
