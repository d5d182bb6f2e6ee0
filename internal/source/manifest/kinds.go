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

// readKind is a kind that Lateen reads.
type readKind struct {
	*kinds.Descriptor
	// versions are the apiVersions under which it is accepted, the preferred one first.
	versions []string
	// name is the rule for metadata.name.
	name nameRule
	// schema is the schema of its Go type.
	schema schema
}

// catalog holds what is known about kinds. It does not change once built.
type catalog struct {
	resources map[kinds.Kind]*readKind
	// named are the resources by their names in manifests: some kinds of two groups share one.
	named map[string][]*readKind
	// versions has the apiVersions of every kind that is known to exist, the preferred one first.
	versions map[string][]string
	// beside are those of them with which a mesh has nothing to do.
	beside map[kinds.Kind][]string
	// groups are the API groups of these kinds, "" for the core group.
	groups []string
	kinds  []string
}

// kindCatalog builds the catalog once, at its first use: the schemas take about a millisecond.
var kindCatalog = sync.OnceValue(newCatalog)

func newCatalog() *catalog {
	c := &catalog{
		resources: map[kinds.Kind]*readKind{}, named: map[string][]*readKind{}, versions: map[string][]string{},
	}
	shapes := newSchemaBuilder()
	for _, d := range kinds.All() {
		r := &readKind{
			Descriptor: d,
			versions:   d.APIVersions(),
			name:       nameRuleOf(d.Names),
			schema:     shapes.ofType(reflect.TypeOf(d.New()).Elem()),
		}
		name := d.Kind.Name()
		c.resources[d.Kind] = r
		c.named[name] = append(c.named[name], r)
		c.versions[name] = append(c.versions[name], r.versions...)
	}
	c.beside = kinds.Beside()
	for _, table := range []map[kinds.Kind][]string{kinds.Unread(), c.beside} {
		for kind, versions := range table {
			slices.SortFunc(versions, compareVersions)
			c.versions[string(kind)] = append(c.versions[string(kind)], versions...)
		}
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

// compareVersions sorts the stable version of a group before its betas and alphas.
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

// lookupResult is what the catalog says about an apiVersion and a kind.
type lookupResult struct {
	resource *readKind // set when Lateen reads it
	beside   bool      // set when it exists and a mesh has nothing to do with it
	unused   string    // set when it exists, or may exist, and Lateen does not use it
	// Otherwise the pair is wrong in the field named, and the message says how.
	field, message, want string
}

// Reads reports whether Lateen reads objects of a kind in a version such as
// "networking.istio.io/v1".
func Reads(apiVersion, kind string) bool {
	return kindCatalog().find(apiVersion, kind).resource != nil
}

// find looks up an apiVersion and a kind, both not empty.
func (c *catalog) find(apiVersion, kind string) lookupResult {
	for _, r := range c.named[kind] {
		if slices.Contains(r.versions, apiVersion) {
			return lookupResult{resource: r}
		}
	}
	versions, known := c.versions[kind]
	if slices.Contains(c.beside[kinds.Kind(kind)], apiVersion) {
		return lookupResult{beside: true}
	}
	if slices.Contains(versions, apiVersion) {
		return lookupResult{unused: source.NotUsed(source.Key{Kind: kinds.Kind(kind)}, apiVersion).Message}
	}
	group := groupOf(apiVersion)
	if strings.Contains(group, ".") && !slices.Contains(c.groups, group) {
		if near := nearest(group, c.groups); near != "" {
			return lookupResult{field: "apiVersion", message: "unknown API group", want: c.wantVersion(kind, near)}
		}
		return lookupResult{
			unused: fmt.Sprintf(
				"%s of %s is not used by Lateen: it is no API of Kubernetes or Istio", kind, apiVersion,
			),
		}
	}
	if known {
		return lookupResult{
			field:   "apiVersion",
			message: "there is no " + kind + " in this version",
			want:    c.wantVersion(kind, group),
		}
	}
	if item, ok := strings.CutSuffix(kind, "List"); ok && c.versions[item] != nil {
		return lookupResult{field: "kind", message: "a list of one kind", want: "List with apiVersion v1"}
	}
	if near := nearest(kind, c.kinds); near != "" {
		want := near
		if !slices.Contains(c.versions[near], apiVersion) {
			want += " with apiVersion " + oneOf(c.versions[near])
		}
		return lookupResult{field: "kind", message: "unknown kind", want: want}
	}
	return lookupResult{
		field:   "kind",
		message: "unknown kind for apiVersion " + apiVersion,
		want:    "one of " + strings.Join(c.used(), ", "),
	}
}

// wantVersion returns the versions of a kind in a group, or in any group if that one has none. For
// an unknown kind it returns the group alone.
func (c *catalog) wantVersion(kind, group string) string {
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

// used returns the kinds that Lateen reads.
func (c *catalog) used() []string {
	var names []string
	for name := range c.named {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
