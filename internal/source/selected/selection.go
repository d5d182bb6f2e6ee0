package selected

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	mesh "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// meshKey is the key of the mesh configuration in its ConfigMap.
const meshKey = "mesh"

// Selection knows which namespaces are in the mesh: those that a discovery selector matches, or all
// if there are no selectors. As with Istio, the root namespace is no exception. Its ConfigMap is
// read in any case.
type Selection struct {
	selectors  []labels.Selector // nil: all namespaces
	namespaces map[string]labels.Set
}

// NewSelection returns one of all namespaces.
func NewSelection() *Selection { return &Selection{namespaces: map[string]labels.Set{}} }

// Selectors returns those in force; nil for all namespaces.
func (s *Selection) Selectors() []labels.Selector { return s.selectors }

// Take records a changed namespace or mesh configuration. For the latter it returns a report on the
// selectors.
func (s *Selection) Take(c source.Change) (report *source.Report) {
	switch c.Key.Kind {
	case kinds.Namespace:
		delete(s.namespaces, c.Key.Name)
		if c.Object != nil {
			s.namespaces[c.Key.Name] = maps.Clone(c.Object.GetLabels())
		}
	case kinds.ConfigMap:
		var problems []source.Problem
		s.selectors = nil
		if config, ok := c.Object.(*corev1.ConfigMap); ok {
			s.selectors, problems = selectorsOf(config, c.Key)
		}
		return &source.Report{Origin: "discovery selectors", Problems: problems}
	}
	return nil
}

// Namespaces returns the namespaces in the mesh; nil for all.
func (s *Selection) Namespaces() map[string]bool {
	if s.selectors == nil {
		return nil
	}
	in := map[string]bool{}
	for name, set := range s.namespaces {
		if s.matches(set) {
			in[name] = true
		}
	}
	return in
}

func (s *Selection) matches(set labels.Set) bool {
	return slices.ContainsFunc(s.selectors, func(one labels.Selector) bool { return one.Matches(set) })
}

// selectorsOf reads the discovery selectors of a mesh configuration. If one of them is wrong, none
// is in force: too many namespaces cost memory, too few would break the missing ones. A
// configuration that cannot be read at all is reported by api/convert, which reads the rest of it.
func selectorsOf(config *corev1.ConfigMap, key source.Key) ([]labels.Selector, []source.Problem) {
	list, err := discoverySelectors(config.Data[meshKey])
	if err != nil {
		return nil, nil
	}
	var selectors []labels.Selector
	for i, s := range list {
		selector, err := metav1.LabelSelectorAsSelector(kubernetesSelector(s))
		if err != nil {
			return nil, []source.Problem{{
				Severity: source.Error,
				Object:   key,
				Path:     fmt.Sprintf("data.%s.discoverySelectors[%d]", meshKey, i),
				Message:  "cannot be read: " + err.Error() + "; all namespaces are in the mesh",
				Want:     "matchLabels, or matchExpressions with the operators In, NotIn, Exists and DoesNotExist",
			}}
		}
		selectors = append(selectors, selector)
	}
	return selectors, nil
}

func discoverySelectors(text string) ([]*mesh.LabelSelector, error) {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	spec := &mesh.MeshConfig{}
	for _, name := range []string{"discoverySelectors", "discovery_selectors"} { // as protojson takes both
		if fields[name] == nil {
			continue
		}
		one, err := json.Marshal(map[string]json.RawMessage{name: fields[name]})
		if err != nil {
			return nil, err
		}
		if err := protojson.Unmarshal(one, spec); err != nil {
			return nil, err
		}
	}
	return spec.GetDiscoverySelectors(), nil
}

func kubernetesSelector(s *mesh.LabelSelector) *metav1.LabelSelector {
	out := &metav1.LabelSelector{MatchLabels: s.GetMatchLabels()}
	for _, e := range s.GetMatchExpressions() {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key:      e.GetKey(),
			Operator: metav1.LabelSelectorOperator(e.GetOperator()),
			Values:   e.GetValues(),
		})
	}
	return out
}
