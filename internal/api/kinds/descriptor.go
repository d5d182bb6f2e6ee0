package kinds

import (
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is the Kubernetes kind of an object, as in its manifest ("Service", "VirtualService"). Kinds
// that Lateen reads have distinct names, so the API group is not part of it. The one exception is
// KubernetesGateway.
type Kind string

// Name returns the kind as manifests have it, without the group that tells some kinds apart.
func (k Kind) Name() string {
	name, _, _ := strings.Cut(string(k), ".")
	return name
}

// NewObject returns an empty object of the type that Changes of this kind hold, or nil for a kind
// that Lateen does not read.
func (k Kind) NewObject() metav1.Object {
	d := Of(k)
	if d.New == nil {
		return nil
	}
	return d.New()
}

// API is a group of kinds that are served together.
type API struct {
	// Group is empty for the core group.
	Group string
	// Versions are those in which manifests are accepted. API servers are asked for the first one.
	Versions []string
	// Custom is set for groups that CustomResourceDefinitions define. An API server may lack them.
	Custom bool
}

// Descriptor is one line of the table. Nobody changes it.
type Descriptor struct {
	Kind Kind
	API
	// Resource is the plural by which the API server serves it.
	Resource string
	// New returns an empty object of its Go type.
	New func() metav1.Object
	// ClusterScoped is set for kinds without a namespace.
	ClusterScoped bool
	// Names is the rule for metadata.name.
	Names NameRule

	// Watch says how the Kubernetes source reads it. Manifests of every kind are read.
	Watch Watch
	// LocalOnly kinds are input of the runtime of "lateen up" or of source/mirror. They are not
	// converted. API servers are not asked for them, because in a cluster other programs act on
	// them.
	LocalOnly bool

	// DependsOnMesh is set if the meaning of an object also depends on the mesh configuration. The
	// object is converted again when that changes.
	DependsOnMesh bool
	// Protects is set if objects limit who is served. While one cannot be read, calls are refused.
	Protects bool

	// Status is what Lateen writes into its status.
	Status Status
	// RegistryType is the label "type" of its pilot_k8s_reg_events; empty if it has none.
	RegistryType string
	// ConfigEvents is set if pilot_k8s_cfg_events counts it.
	ConfigEvents bool
}

// Watch says how the Kubernetes source reads a kind.
type Watch struct {
	// Fields is the field selector of all requests.
	Fields string
	// MeshConfigOnly limits the requests to the object with the mesh configuration, and the one
	// with fetched keys, in the root namespace.
	MeshConfigOnly bool
	// Optional kinds do not delay the first state while they may not be read.
	Optional bool
	// Revisioned objects belong to another control plane if their RevisionLabel says so.
	Revisioned bool
	// Labels is set if the labels of a custom object count beside its spec.
	Labels bool
	// Condition is the condition in the status of a custom object that counts; empty if none does.
	Condition string
	// CountsSame is set if pilot_k8s_reg_events also counts updates that change nothing that is
	// used.
	CountsSame bool
}

// Status is what Lateen writes into the status of objects.
type Status uint8

// What may be written.
const (
	NoStatus Status = iota
	// Conditions: a condition that says whether all of the object is in force.
	Conditions
	// Address: the addresses of the gateways that serve it.
	Address
	// Attachments: what the Gateway API specifies for its kinds.
	Attachments
)

// NameRule is a rule of Kubernetes for names.
type NameRule uint8

// The rules.
const (
	DNSSubdomain NameRule = iota // RFC 1123, a domain: what most kinds have
	DNSLabel                     // RFC 1123, a label
	ServiceName                  // RFC 1035, a label: names of Services become host names
)

// APIVersions returns the accepted values of apiVersion, the preferred one first.
func (d *Descriptor) APIVersions() []string {
	var all []string
	for _, v := range d.Versions {
		all = append(all, schema.GroupVersion{Group: d.Group, Version: v}.String())
	}
	return all
}

// GroupVersionResource returns the resource that the API server serves, in the preferred version.
func (d *Descriptor) GroupVersionResource() schema.GroupVersionResource {
	if len(d.Versions) == 0 {
		return schema.GroupVersionResource{}
	}
	return schema.GroupVersionResource{Group: d.Group, Version: d.Versions[0], Resource: d.Resource}
}

// index is the table by kind. It does not change once built.
type index struct {
	all      []*Descriptor
	reported []*Descriptor
	byKind   map[Kind]*Descriptor
	unread   *Descriptor
}

// tableIndex builds the index once, at its first use.
var tableIndex = sync.OnceValue(newIndex)

func newIndex() *index {
	x := &index{byKind: map[Kind]*Descriptor{}, unread: &Descriptor{}}
	for _, d := range table() {
		x.all = append(x.all, &d)
		x.byKind[d.Kind] = &d
	}
	for _, d := range reported() {
		x.reported = append(x.reported, &d)
	}
	return x
}

// Of returns the descriptor of a kind. For a kind that Lateen does not read no field is set.
func Of(k Kind) *Descriptor {
	x := tableIndex()
	if d := x.byKind[k]; d != nil {
		return d
	}
	return x.unread
}

// All returns the kinds that Lateen reads, in the order of the table.
func All() []*Descriptor { return slices.Clone(tableIndex().all) }

// Watched returns the kinds that the Kubernetes source reads.
func Watched() []*Descriptor {
	return slices.DeleteFunc(All(), func(d *Descriptor) bool { return d.LocalOnly })
}

// WithStatus returns the kinds into whose status Lateen writes s. Some of them are only reported.
func WithStatus(s Status) []*Descriptor {
	return slices.DeleteFunc(append(All(), Reported()...), func(d *Descriptor) bool { return d.Status != s })
}

// Unread returns the kinds that exist and that Lateen does not read, though a mesh has to do with
// them, with their apiVersions in no order.
func Unread() map[Kind][]string { return byName(unread()) }

// Beside returns the kinds that exist and with which a mesh has nothing to do, with their
// apiVersions in no order. No Istio reads them either.
func Beside() map[Kind][]string { return byName(beside()) }

// byName turns names by apiVersion into apiVersions by name.
func byName(table map[string]string) map[Kind][]string {
	all := map[Kind][]string{}
	for version, names := range table {
		for name := range strings.FieldsSeq(names) {
			all[Kind(name)] = append(all[Kind(name)], version)
		}
	}
	return all
}
