package inspect

import (
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestAnalyzeTellsExportsToNamespacesThatAreNotThere: in a cluster, whose namespaces are all read.
func TestAnalyzeTellsExportsToNamespacesThatAreNotThere(t *testing.T) {
	const nobody = "there is no such namespace, so that nobody sees this object"
	for _, c := range []struct {
		list          []string
		value, says   string
		amongManifest bool
	}{
		{list: []string{"shop"}}, {list: []string{"."}}, {list: []string{"~"}}, {list: []string{"*", "gone"}}, {},
		{list: []string{"gone"}, amongManifest: true},
		{list: []string{"gone", "away"}, value: "gone,away", says: nobody},
		{list: []string{"shop", "gone"}, value: "gone", says: "there is no such namespace"},
		{list: []string{".", "gone"}, value: "gone", says: "there is no such namespace"},
	} {
		annotations := map[string]string{}
		for i, name := range c.list {
			annotations[kinds.ExportAnnotation] += map[bool]string{true: ", "}[i > 0] + name
		}
		seen := &observed{templates: c.amongManifest, whole: whole{domain: "cluster.local"}}
		look := func(k kinds.Kind, o metav1.Object) {
			seen.look(source.Change{Key: source.Key{Kind: k, Namespace: "shop", Name: "o"}, Object: o})
		}
		look(kinds.Service, &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Name: "o", Namespace: "shop", Annotations: annotations,
		}})
		look(kinds.VirtualService, &networkingv1.VirtualService{Spec: networking.VirtualService{ExportTo: c.list}})
		look(kinds.ServiceEntry, &networkingv1.ServiceEntry{Spec: networking.ServiceEntry{
			ExportTo: c.list, Hosts: []string{"o.test"},
		}})
		look(kinds.DestinationRule, &networkingv1.DestinationRule{Spec: networking.DestinationRule{
			ExportTo: c.list, Host: "o.test",
		}})
		look(kinds.Namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		told := map[kinds.Kind]string{}
		for _, p := range seen.differences() {
			if p.Path == "spec.exportTo" || p.Object.Kind == kinds.Service {
				require.Equal(t, c.value, p.Value)
				told[p.Object.Kind] = p.Message
			}
		}
		want := map[kinds.Kind]string{}
		if c.says != "" {
			for _, k := range []kinds.Kind{
				kinds.Service, kinds.VirtualService, kinds.ServiceEntry, kinds.DestinationRule,
			} {
				want[k] = c.says
			}
		}
		require.Equal(t, want, told, "%v", c.list)
	}
}
