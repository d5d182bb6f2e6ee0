package differences_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

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

func annotated(name, value string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{name: value}}}
}

// tokens is a RequestAuthentication with rules, which are fields in YAML.
func tokens(rules ...string) *securityv1.RequestAuthentication {
	r := &securityv1.RequestAuthentication{}
	for _, text := range rules {
		rule := &security.JWTRule{}
		if err := yaml.Unmarshal([]byte(text), rule); err != nil {
			panic(err)
		}
		r.Spec.JwtRules = append(r.Spec.JwtRules, rule)
	}
	return r
}

// Each row finds the fields that depend on it, and nothing in an object that does not.
func TestRowsFindWhatDependsOnThem(t *testing.T) {
	cases := map[string]struct {
		affected, other metav1.Object
		path            string
	}{
		"request-authentication-private-keys": {
			tokens("issuer: https://a.test", "{issuer: a, jwksUri: http://keycloak.auth.svc:8080/keys}"),
			tokens("{issuer: https://a.test}", "{issuer: a, jwks: '{}'}",
				"{issuer: a, jwksUri: 'https://b.test/keys'}"),
			"spec.jwtRules[1].jwksUri",
		},
		"service-topology-mode": {
			annotated("service.kubernetes.io/topology-mode", "Auto"),
			annotated("service.kubernetes.io/topology-mode", "Disabled"),
			"metadata.annotations[service.kubernetes.io/topology-mode]",
		},
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
