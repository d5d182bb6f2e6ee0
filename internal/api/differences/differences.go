// Package differences is a table of what works otherwise than in istiod and that no conversion
// reports: objects that are in force, and may do something else than before. lateen precheck looks
// each object up in it. docs/reference/differences.md explains the rows.
//
// It may import api/convert, api/kinds, api/model and source.
package differences

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Difference is one row: something about objects of a kind that works otherwise than in istiod.
type Difference struct {
	// Name is for machines, and never changes.
	Name string
	Kind kinds.Kind
	// Fields returns the paths of an object's fields that are affected, with their values; none if
	// the object does not depend on the difference.
	Fields func(metav1.Object) []Field
	// Istiod and Lateen say what each does. Want is what works alike in both.
	Istiod, Lateen, Want string
}

// Field is one affected field of an object.
type Field struct{ Path, Value string }

// All returns the rows that one object decides on, by name.
func All() []Difference { return slices.Clone(rows) }

var rows = []Difference{
	{
		Name: "request-authentication-private-keys", Kind: kinds.RequestAuthentication,
		Fields: of(privateKeys),
		Istiod: "fetches keys from any address",
		Lateen: "fetches them from public addresses alone, and refuses the rule's tokens until it has them",
		Want: "the network of the issuer's address in LATEEN_JWKS_PRIVATE_NETWORKS " +
			"(--set pilot.env.LATEEN_JWKS_PRIVATE_NETWORKS=10.0.0.0/8)",
	},
	{
		Name: "service-external-ips", Kind: kinds.Service,
		Fields: of(func(s *corev1.Service) []Field {
			if s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.ExternalIPs) == 0 {
				return nil
			}
			return []Field{{"spec.externalIPs", strings.Join(s.Spec.ExternalIPs, ", ")}}
		}),
		Istiod: "leaves calls from the mesh to these addresses to kube-proxy",
		Lateen: "routes them as calls to the cluster IP, in mutual TLS where the mesh has it",
		Want:   "no externalIPs that workloads of the mesh call past the Service's policies",
	},
	{
		Name: "service-topology-mode", Kind: kinds.Service,
		Fields: of(topologyMode),
		Istiod: "does not read it",
		Lateen: "calls the endpoints that the hints of EndpointSlices name for the caller's zone",
		Want:   "Disabled, where all zones are to be called",
	},
	{
		Name: "tls-defaults-version", Kind: kinds.ConfigMap,
		Fields: of(meshTLSVersion),
		Istiod: "ignores it",
		Lateen: "refuses older versions in TLS that DestinationRules and Gateways ask for",
		Want:   "a version that all servers outside of the mesh and all clients of gateways speak",
	},
	{
		Name: "virtual-service-wildcard", Kind: kinds.VirtualService,
		Fields: of(meshWildcards),
		Istiod: "gives names below it that no service has to the outbound traffic policy",
		Lateen: "gives them the routes of the VirtualService",
		Want:   "the hosts that the routes are for",
	},
}

// of makes a function for one type into one for all. It finds nothing in other types.
func of[T metav1.Object](fields func(T) []Field) func(metav1.Object) []Field {
	return func(o metav1.Object) []Field {
		typed, is := o.(T)
		if !is {
			return nil
		}
		return fields(typed)
	}
}

// meshWildcards are the hosts of a VirtualService of sidecars that stand for many names.
func meshWildcards(v *networkingv1.VirtualService) []Field {
	if g := v.Spec.GetGateways(); len(g) > 0 && !slices.Contains(g, "mesh") || len(v.Spec.GetHttp()) == 0 {
		return nil
	}
	var found []Field
	for i, host := range v.Spec.GetHosts() {
		if strings.HasPrefix(host, "*") {
			found = append(found, Field{at("spec.hosts", i), host})
		}
	}
	return found
}

// meshTLSVersion is the least version of TLS in the mesh configuration.
func meshTLSVersion(c *corev1.ConfigMap) []Field {
	var mesh struct {
		TLSDefaults struct {
			MinProtocolVersion string `json:"minProtocolVersion"`
		} `json:"tlsDefaults"`
	}
	if yaml.Unmarshal([]byte(c.Data["mesh"]), &mesh) != nil {
		return nil // the conversion reports it
	}
	version := mesh.TLSDefaults.MinProtocolVersion
	if version == "" || version == "TLS_AUTO" || version == "TLSV1_2" { // the least without it, too
		return nil
	}
	return []Field{{"mesh.tlsDefaults.minProtocolVersion", version}}
}

// Of returns what of an object works otherwise than in istiod.
func Of(o metav1.Object, key source.Key) []source.Problem {
	var found []source.Problem
	for _, d := range rows {
		if d.Kind != key.Kind {
			continue
		}
		for _, f := range d.Fields(o) {
			found = append(found, source.Problem{
				Severity: source.Warning, Object: key, Path: f.Path, Value: f.Value,
				Message: "istiod " + d.Istiod + "; Lateen " + d.Lateen, Want: d.Want,
			})
		}
	}
	return found
}

func at(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
