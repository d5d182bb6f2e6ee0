package differences_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/differences"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

func virtualService(hosts, gateways []string) *networkingv1.VirtualService {
	v := &networkingv1.VirtualService{}
	v.Spec.Hosts, v.Spec.Gateways, v.Spec.Http = hosts, gateways, []*networking.HTTPRoute{{}}
	return v
}

func mesh(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: map[string]string{"mesh": text}}
}

// Each row finds the fields that depend on it, and nothing in an object that does not.
func TestRowsFindWhatDependsOnThem(t *testing.T) {
	cases := map[string]struct {
		affected, other metav1.Object
		path            string
	}{
		"service-external-ips": {
			&corev1.Service{Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.1"}}},
			&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "None", ExternalIPs: []string{"192.0.2.1"}}},
			"spec.externalIPs",
		},
		"tls-defaults-version": {
			mesh("tlsDefaults: {minProtocolVersion: TLSV1_3}"), mesh("tlsDefaults: {minProtocolVersion: TLSV1_2}"),
			"mesh.tlsDefaults.minProtocolVersion",
		},
		"virtual-service-wildcard": {
			virtualService([]string{"a.test", "*.b.test"}, nil), virtualService([]string{"*"}, []string{"entrance"}),
			"spec.hosts[1]",
		},
	}
	var names []string
	for _, d := range differences.All() {
		names = append(names, d.Name)
		c, exists := cases[d.Name]
		require.True(t, exists, "a case for %s", d.Name)
		key := source.Key{Kind: d.Kind, Namespace: "default", Name: "it"}
		found := differences.Of(c.affected, key)
		require.Len(t, found, 1, d.Name)
		require.Equal(t, c.path, found[0].Path)
		require.Equal(t, key, found[0].Object)
		require.Empty(t, differences.Of(c.other, key), d.Name)
		require.Empty(t, differences.Of(c.affected, source.Key{Kind: kinds.Pod}))
	}
	require.True(t, slices.IsSorted(names))
	require.Len(t, cases, len(names))
}

func entry(namespace, name string, change func(*networking.ServiceEntry)) *networkingv1.ServiceEntry {
	e := &networkingv1.ServiceEntry{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	e.Spec.Hosts = []string{"api.test"}
	change(&e.Spec)
	return e
}

func TestEntriesOfOneHostHaveToAgree(t *testing.T) {
	same := func(*networking.ServiceEntry) {}
	selecting := func(e *networking.ServiceEntry) {
		e.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"app": "a"}}
	}
	require.Empty(t, differences.Entries([]*networkingv1.ServiceEntry{
		entry("default", "a", same), entry("default", "b", same), entry("other", "c", selecting),
	}))
	for _, differs := range []func(*networking.ServiceEntry){
		selecting,
		func(e *networking.ServiceEntry) { e.Resolution = networking.ServiceEntry_DNS },
		func(e *networking.ServiceEntry) { e.Location = networking.ServiceEntry_MESH_INTERNAL },
		func(e *networking.ServiceEntry) { e.ExportTo = []string{"."} },
		func(e *networking.ServiceEntry) { e.SubjectAltNames = []string{"b.test"} },
	} {
		found := differences.Entries([]*networkingv1.ServiceEntry{
			entry("default", "a", same), entry("default", "b", differs),
		})
		require.Len(t, found, 1)
		require.Equal(t, "b", found[0].Object.Name)
		require.Contains(t, found[0].Message, "default/a")
	}
}
