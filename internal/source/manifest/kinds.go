package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// usedKind is a kind that Lateen reads.
type usedKind struct {
	*kinds.Descriptor
	// versions are the apiVersions under which it is accepted, the preferred one first.
	versions []string
	// name is the rule for metadata.name.
	name nameRule
	// shape is the schema of the type that it is decoded into.
	shape shape
}

// catalogue holds what is known about kinds. It does not change once built.
type catalogue struct {
	resources map[kinds.Kind]*usedKind
	// versions has every kind that is known to exist, with its apiVersions, the preferred one first.
	versions map[string][]string
	// groups are the API groups of these, "" for the core group.
	groups []string
	kinds  []string
}

// theCatalogue builds the catalogue once, at its first use: the schemas take about a millisecond.
var theCatalogue = sync.OnceValue(newCatalogue)

func newCatalogue() *catalogue {
	c := &catalogue{resources: map[kinds.Kind]*usedKind{}, versions: map[string][]string{}}
	shapes := newShapeBuilder()
	for _, d := range kinds.All() {
		c.resources[d.Kind] = &usedKind{
			Descriptor: d,
			versions:   d.APIVersions(),
			name:       nameRuleOf(d.Names),
			shape:      shapes.ofType(reflect.TypeOf(d.New()).Elem()),
		}
		c.versions[string(d.Kind)] = d.APIVersions()
	}
	for kind, versions := range kinds.Unread() {
		slices.SortFunc(versions, compareVersions)
		c.versions[string(kind)] = append(c.versions[string(kind)], versions...)
	}
	for kind, versions := range c.versions {
		c.kinds = append(c.kinds, kind)
		for _, v := range versions {
			c.groups = append(c.groups, groupOf(v))
		}
	}
	slices.Sort(c.kinds)
	slices.Sort(c.groups)
	c.groups = slices.Compact(c.groups)
	return c
}

// compareVersions puts the stable version of a group before its betas and alphas.
func compareVersions(a, b string) int {
	if d := strings.Compare(groupOf(a), groupOf(b)); d != 0 {
		return d
	}
	if len(a) != len(b) { // "v1" is shorter than "v1beta1", which is shorter than "v1alpha3"
		return len(a) - len(b)
	}
	return strings.Compare(b, a)
}

func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// verdict is what the catalogue says about a pair of apiVersion and kind.
type verdict struct {
	resource *usedKind // set when Lateen reads it
	unused   string    // set when it exists, or may exist, and Lateen does not use it
	// Otherwise the pair is wrong in the field named, and the message says how.
	field, message, want string
}

// Reads tells whether Lateen reads objects of a kind in a version such as "networking.istio.io/v1".
func Reads(apiVersion, kind string) bool {
	return theCatalogue().look(apiVersion, kind).resource != nil
}

// look tells what an apiVersion and a kind, both given, stand for.
func (c *catalogue) look(apiVersion, kind string) verdict {
	if r, ok := c.resources[kinds.Kind(kind)]; ok && slices.Contains(r.versions, apiVersion) {
		return verdict{resource: r}
	}
	versions, known := c.versions[kind]
	if slices.Contains(versions, apiVersion) {
		text := fmt.Sprintf("%s of %s is not used by Lateen (yet)", kind, apiVersion)
		if unusedSeverity(kinds.Kind(kind)) == source.Error {
			text += ": it is not enforced"
		}
		return verdict{unused: text}
	}
	group := groupOf(apiVersion)
	if strings.Contains(group, ".") && !slices.Contains(c.groups, group) {
		if near := nearest(group, c.groups); near != "" {
			return verdict{field: "apiVersion", message: "unknown API group", want: c.wantVersion(kind, near)}
		}
		return verdict{unused: fmt.Sprintf("%s of %s is not used by Lateen: it is no API of Kubernetes or Istio", kind, apiVersion)}
	}
	if known {
		return verdict{field: "apiVersion", message: "there is no " + kind + " in this version", want: c.wantVersion(kind, group)}
	}
	if item, ok := strings.CutSuffix(kind, "List"); ok && c.versions[item] != nil {
		return verdict{field: "kind", message: "a list of one kind", want: "List with apiVersion v1"}
	}
	if near := nearest(kind, c.kinds); near != "" {
		want := near
		if !slices.Contains(c.versions[near], apiVersion) {
			want += " with apiVersion " + oneOf(c.versions[near])
		}
		return verdict{field: "kind", message: "unknown kind", want: want}
	}
	return verdict{field: "kind", message: "unknown kind for apiVersion " + apiVersion, want: "one of " + strings.Join(c.used(), ", ")}
}

// wantVersion gives the versions of a kind in a group; those in any group when it has none; of an unknown kind, the
// group alone.
func (c *catalogue) wantVersion(kind, group string) string {
	all := c.versions[kind]
	if all == nil {
		return "the group " + group
	}
	same := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return groupOf(v) != group })
	if len(same) == 0 {
		return oneOf(all)
	}
	return oneOf(same)
}

// used are the kinds that Lateen reads.
func (c *catalogue) used() []string {
	var names []string
	for kind := range c.resources {
		names = append(names, string(kind))
	}
	slices.Sort(names)
	return names
}
