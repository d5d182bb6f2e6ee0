package spec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/install/render"
)

// DefaultNamespace is the root namespace if nobody names one.
const DefaultNamespace = "istio-system"

// Spec is what to install. The zero value of a field stands for the default.
type Spec struct {
	Namespace string `json:"namespace,omitempty"`
	// Name is that of the IstioOperator. Gateways without a control plane are told apart by it.
	Name string `json:"name,omitempty"`
	// GatewaysOnly is set if the control plane is another installation's.
	GatewaysOnly bool `json:"gatewaysOnly,omitempty"`
	// Values are those of the chart lateen.
	Values map[string]any `json:"values,omitempty"`
	// SkipKinds is set if the definitions of Istio's kinds are somebody else's.
	SkipKinds bool `json:"skipKinds,omitempty"`
	// ExcludedKinds are the names of definitions that are not installed, as
	// "sidecars.networking.istio.io".
	ExcludedKinds []string `json:"excludedKinds,omitempty"`
	// MembersSelect is set if the discovery selectors are those of a ServiceMeshMemberRoll, which
	// another one replaces.
	MembersSelect bool `json:"membersSelect,omitempty"`
	// Strict is set if the mesh speaks mutual TLS alone, as Maistra's security.dataPlane.mtls says.
	Strict   bool      `json:"strict,omitempty"`
	Gateways []Gateway `json:"gateways,omitempty"`
}

// Gateway is a release of the chart gateway.
type Gateway struct {
	Name      string         `json:"name"`
	Namespace string         `json:"namespace,omitempty"`
	Values    map[string]any `json:"values,omitempty"`
}

// Note says what becomes of a field that is not simply honoured.
type Note struct {
	// Field is the path within what the user wrote, and Value what it says.
	Field, Value string
	Outcome      string
}

// Revision returns the revision; "default" is the only one.
func (s *Spec) Revision() string {
	revision, _ := s.Values["revision"].(string)
	return cmp.Or(revision, install.DefaultRevision)
}

// Owner is what installed objects are labelled with: the revision, or a name of their own for
// gateways without a control plane, so that neither installation removes the other's objects.
func (s *Spec) Owner() string {
	if !s.GatewaysOnly {
		return s.Revision()
	}
	return strings.TrimSuffix("gateways-"+s.Name, "-")
}

// Root returns the root namespace.
func (s *Spec) Root() string { return cmp.Or(s.Namespace, DefaultNamespace) }

// Names returns the names of the control plane's objects.
func (s *Spec) Names() install.Names { return install.NamesOf(s.Root(), s.Revision()) }

// anyOf returns texts as values of a chart are.
func anyOf(texts []string) []any {
	all := make([]any, len(texts))
	for n, text := range texts {
		all[n] = text
	}
	return all
}

// Lookup answers what templates ask a cluster; nil: they find nothing.
type Lookup = render.Lookup

// Objects renders the charts: the namespaces, the kinds, the control plane and the gateways, in the
// order in which to apply them.
func (s *Spec) Objects(cluster Lookup) ([]*unstructured.Unstructured, error) {
	if err := s.checkNames(); err != nil {
		return nil, err
	}
	var releases []render.Release
	namespaces := map[string]bool{}
	if !s.GatewaysOnly || !s.SkipKinds {
		namespaces[s.Root()] = true
		releases = append(releases, render.Release{
			Chart: render.Base, Name: "lateen-base", Namespace: s.Root(), Values: map[string]any{
				"base": map[string]any{"enableCRDTemplates": !s.SkipKinds, "excludedCRDs": anyOf(s.ExcludedKinds)},
			},
		})
	}
	if !s.GatewaysOnly {
		releases = append(releases, render.Release{
			Chart: render.Lateen, Name: "lateen", Namespace: s.Root(), Values: s.Values,
		})
	}
	for _, g := range s.Gateways {
		namespace := cmp.Or(g.Namespace, s.Root())
		namespaces[namespace] = true
		values := maps.Clone(g.Values)
		if values == nil {
			values = map[string]any{}
		}
		if _, set := values["revision"]; !set && s.Revision() != install.DefaultRevision {
			values["revision"] = s.Revision()
		}
		releases = append(releases, render.Release{
			Chart: render.Gateway, Name: g.Name, Namespace: namespace, Values: values,
		})
	}
	var all []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("v1")
		o.SetKind("Namespace")
		o.SetName(name)
		all = append(all, o)
	}
	if s.Strict {
		all = append(all, s.strictObjects()...)
	}
	var problems []error
	for _, r := range releases {
		r.Cluster = cluster
		objects, err := r.Objects()
		if err != nil && r.Chart == render.Gateway {
			err = fmt.Errorf("the gateway %s: %w", r.Name, err)
		}
		problems = append(problems, err)
		all = append(all, objects...)
	}
	render.Sort(all)
	return all, errors.Join(problems...)
}

func (s *Spec) checkNames() error {
	var problems []error
	label := func(field, value string) {
		if problem := validation.IsDNS1123Label(value); len(problem) > 0 {
			problems = append(problems, fmt.Errorf("%s = %q; want a name of small letters, digits and dashes, 63 "+
				"at most, that begins and ends with a letter or a digit", field, value))
		}
	}
	label("the namespace", s.Root())
	seen := map[string]bool{}
	for _, g := range s.Gateways {
		label("the name of a gateway", g.Name)
		label("the namespace of the gateway "+g.Name, cmp.Or(g.Namespace, s.Root()))
		key := cmp.Or(g.Namespace, s.Root()) + "/" + g.Name
		if seen[key] {
			problems = append(problems, fmt.Errorf("the gateway %s is there twice; want one of each name", key))
		}
		seen[key] = true
	}
	return errors.Join(problems...)
}

// merge puts over on top of under, level by level, and returns it. Lists are replaced.
func merge(under, over map[string]any) map[string]any {
	if under == nil {
		under = map[string]any{}
	}
	for key, value := range over {
		now, isMap := value.(map[string]any)
		before, wasMap := under[key].(map[string]any)
		switch {
		case isMap && wasMap:
			under[key] = merge(before, now)
		case isMap:
			under[key] = merge(nil, now)
		default:
			under[key] = value
		}
	}
	return under
}

// remove removes the value under a dotted path.
func remove(values map[string]any, path string) {
	name := path
	if dot := strings.LastIndexByte(path, '.'); dot >= 0 {
		name = path[dot+1:]
		values = object(at(values, path[:dot]))
	}
	delete(values, name)
}

// put sets the value under a dotted path.
func put(values map[string]any, path string, value any) {
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		below, ok := values[key].(map[string]any)
		if !ok {
			below = map[string]any{}
			values[key] = below
		}
		values = below
	}
	values[keys[len(keys)-1]] = value
}
