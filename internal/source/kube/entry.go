package kube

import (
	"encoding/binary"
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

// entry is an object of the API as far as it is used.
type entry struct {
	key source.Key
	// object is nil when it cannot be read.
	object  metav1.Object
	problem *source.Problem
	print   print
}

// print is the fingerprint of an entry: 62 bits of a keyed hash, and what the sink holds because of it.
type print uint64

const (
	hasObject print = 1 << iota
	hasReport
)

// reader turns objects into entries. It is used by one goroutine.
type reader struct {
	resource *resource
	revision string
	seed     maphash.Seed
	buffer   []byte
}

// read gives the entry of an object. It takes the object over; false if it is another control plane's, or means nothing here.
func (r *reader) read(o metav1.Object) (entry, bool) {
	if means := r.resource.builtin.means; means != nil && !means(o) {
		return entry{}, false
	}
	if rev, set := o.GetLabels()[kinds.RevisionLabel]; set && r.resource.watch.Revisioned && rev != r.revision {
		return entry{}, false
	}
	e := entry{key: r.keyOf(o)}
	r.buffer = r.buffer[:0]
	switch o := o.(type) {
	case *custom:
		r.readCustom(o, &e)
	default:
		r.resource.builtin.trim(o)
		e.object = o
		r.buffer = appendStable(r.buffer, o)
	}
	if e.object != nil {
		e.print |= hasObject
	}
	if e.problem != nil {
		e.print |= hasReport
		r.buffer = append(r.buffer, e.problem.String()...)
	}
	e.print |= print(maphash.Bytes(r.seed, r.buffer)) &^ (hasObject | hasReport)
	return e, true
}

// keyOf names an object with strings of which there is one each: namespaces repeat.
func (r *reader) keyOf(o metav1.Object) source.Key {
	return source.Key{Kind: r.resource.kind, Namespace: intern(o.GetNamespace()), Name: o.GetName()}
}

// intern is for strings that many objects have.
func intern(s string) string { return unique.Make(s).Value() }

func (r *reader) readCustom(c *custom, e *entry) {
	if c.flaw != nil {
		e.problem = &source.Problem{
			Severity: c.flaw.severity, Object: e.key, Path: "spec", Message: c.flaw.message, Want: c.flaw.want,
		}
	}
	if c.object == nil {
		return
	}
	meta := metaOf(&c.ObjectMeta)
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
	r.keepExtras(c)
	var err error
	if r.buffer, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(r.buffer, specOf(c.object)); err != nil {
		// A string that is not UTF-8 cannot come out of JSON; whatever else it may be, nothing of it is delivered.
		e.object = nil
		e.problem = &source.Problem{Severity: source.Error, Object: e.key, Path: "spec", Message: "cannot be read: " + err.Error()}
	}
}

// keepExtras keeps of a custom object what counts beside its spec.
func (r *reader) keepExtras(c *custom) {
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

// stable is what the types of Kubernetes have: an encoding in which maps are sorted.
type stable interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// appendStable appends a built-in object. An encoding that fails, which none does, would make every update count as one.
func appendStable(buffer []byte, o metav1.Object) []byte {
	s, ok := o.(stable)
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

// metaOf is what counts of an object that can compete with others: the older one wins.
func metaOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, CreationTimestamp: m.CreationTimestamp}
}

// nameOf is what counts of all others.
func nameOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: intern(m.Namespace)}
}
