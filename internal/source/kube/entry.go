package kube

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"unique"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// entry is what Lateen uses of one object of the API.
type entry struct {
	key source.Key
	// object is nil when it cannot be read.
	object      metav1.Object
	problem     *source.Problem
	fingerprint fingerprint
}

// fingerprint identifies the content of an entry: 62 bits of a keyed hash, and two bits that say
// what the sink holds for it.
type fingerprint uint64

const (
	hasObject fingerprint = 1 << iota
	hasReport
)

// reader turns objects into entries. It is used by one goroutine.
type reader struct {
	resource *resource
	// revisions are the values of the label istio.io/rev that name this control plane.
	revisions revisions
	seed      maphash.Seed
	buffer    []byte
}

// read returns the entry of an object, which it may change. It returns false if the object belongs
// to another control plane or has no meaning here.
func (r *reader) read(o metav1.Object) (entry, bool) {
	if means := r.resource.builtin.isRelevant; means != nil && !means(o) {
		return entry{}, false
	}
	if rev, set := o.GetLabels()[kinds.RevisionLabel]; set && r.resource.watch.Revisioned && !r.revisions[rev] {
		return entry{}, false
	}
	e := entry{key: r.keyOf(o)}
	r.buffer = r.buffer[:0]
	switch o := o.(type) {
	case *customObject:
		if r.resource.reported {
			p := source.NotUsed(e.key, r.resource.GroupVersion().String())
			e.problem = &p
			break
		}
		r.readCustom(o, &e)
	default:
		by := r.writer(o)
		r.resource.builtin.trim(o)
		e.object = o
		r.buffer = appendDeterministic(r.buffer, o)
		o.SetManagedFields(by)
	}
	if e.object != nil {
		e.fingerprint |= hasObject
	}
	if e.problem != nil {
		e.fingerprint |= hasReport
		r.buffer = append(r.buffer, e.problem.String()...)
	}
	e.fingerprint |= fingerprint(maphash.Bytes(r.seed, r.buffer)) &^ (hasObject | hasReport)
	return e, true
}

// writer returns who wrote an object last, but for its status, as the one entry of its
// managedFields: for history. Of kinds that change all the time nobody asks.
func (r *reader) writer(o metav1.Object) []metav1.ManagedFieldsEntry {
	switch r.resource.kind {
	case kinds.Pod, kinds.Node, kinds.EndpointSlice, kinds.Secret:
		return nil
	}
	var last *metav1.ManagedFieldsEntry
	list := o.GetManagedFields()
	for i := range list {
		if m := &list[i]; m.Subresource == "" && m.Time != nil && (last == nil || last.Time.Before(m.Time)) {
			last = m
		}
	}
	if last == nil {
		return nil
	}
	return []metav1.ManagedFieldsEntry{{Manager: intern(last.Manager), Operation: last.Operation, Time: last.Time}}
}

// keyOf returns the key of an object. It interns the namespace, because namespaces repeat.
func (r *reader) keyOf(o metav1.Object) source.Key {
	return source.Key{Kind: r.resource.kind, Namespace: intern(o.GetNamespace()), Name: o.GetName()}
}

// intern returns the one copy of a string that many objects have.
func intern(s string) string { return unique.Make(s).Value() }

func (r *reader) readCustom(c *customObject, e *entry) {
	if c.problem != nil {
		e.problem = &source.Problem{
			Severity: c.problem.severity,
			Object:   e.key,
			Path:     "spec",
			Message:  c.problem.message,
			Want:     c.problem.want,
		}
	}
	if c.object == nil {
		return
	}
	meta := conflictMeta(&c.ObjectMeta)
	c.object.SetName(meta.Name)
	c.object.SetNamespace(intern(meta.Namespace))
	c.object.SetUID(meta.UID)
	c.object.SetCreationTimestamp(meta.CreationTimestamp)
	c.object.SetGeneration(c.Generation) // what is written into a status refers to it
	c.object.SetAnnotations(annotations(c.Annotations))
	e.object = c.object
	r.buffer = append(r.buffer, meta.UID...)
	r.buffer = binary.AppendVarint(r.buffer, meta.CreationTimestamp.Unix())
	r.buffer = binary.AppendVarint(r.buffer, c.Generation)
	for _, name := range usedAnnotations {
		if value, set := c.Annotations[name]; set {
			r.buffer = fmt.Appendf(r.buffer, "%q:%q,", name, value)
		}
	}
	c.object.SetManagedFields(r.writer(c)) // no content
	r.keepExtras(c)
	if err := r.bufferSpec(c); err != nil {
		// A string that is not UTF-8 cannot come out of JSON; whatever else it may be, nothing of
		// it is delivered.
		e.object = nil
		e.problem = &source.Problem{
			Severity: source.Error,
			Object:   e.key,
			Path:     "spec",
			Message:  "cannot be read: " + err.Error(),
		}
	}
}

// bufferSpec appends the spec of a custom object to what its fingerprint is made of.
func (r *reader) bufferSpec(c *customObject) error {
	spec := specOf(c.object)
	if spec == nil {
		text, err := json.Marshal(c.object)
		r.buffer = append(r.buffer, text...)
		return err
	}
	var err error
	r.buffer, err = proto.MarshalOptions{Deterministic: true}.MarshalAppend(r.buffer, spec)
	return err
}

// keepExtras keeps the labels and the condition of a custom object, if they count beside its spec.
func (r *reader) keepExtras(c *customObject) {
	if r.resource.watch.Labels {
		c.object.SetLabels(c.Labels)
		for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
			r.buffer = fmt.Appendf(r.buffer, "%q=%q,", name, c.Labels[name])
		}
	}
	if r.resource.watch.Condition != "" {
		for _, condition := range statusOf(c.object).GetConditions() {
			r.buffer = fmt.Appendf(r.buffer, "%q is %q,", condition.GetType(), condition.GetStatus())
		}
	}
}

// deterministic is implemented by the types of Kubernetes: their encoding sorts maps.
type deterministic interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// appendDeterministic appends the encoding of a built-in object. If an encoding failed, which none
// does, every update would count as a change.
func appendDeterministic(buffer []byte, o metav1.Object) []byte {
	s, ok := o.(deterministic)
	if !ok {
		return fmt.Appendf(buffer, "%p", o)
	}
	at, size := len(buffer), s.Size()
	for range size {
		buffer = append(buffer, 0)
	}
	if _, err := s.MarshalToSizedBuffer(buffer[at:]); err != nil {
		return fmt.Appendf(buffer[:at], "%p", o)
	}
	return buffer
}

// conflictMeta returns the metadata of an object that can conflict with others: the older one wins.
func conflictMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, CreationTimestamp: m.CreationTimestamp}
}

// nameMeta returns the metadata of all other objects.
func nameMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: intern(m.Namespace)}
}
