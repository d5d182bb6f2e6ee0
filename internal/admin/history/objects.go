package history

import (
	"encoding/json"
	"reflect"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/admin/fields"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// maxFields is how many fields of an object are told.
const maxFields = 20

// objects are the objects that people write, as they were last, in so many bytes at most. Of those
// for which there is no place only the names are known.
type objects struct {
	known        map[source.Key]packed
	size, budget int
}

// packed is an object in few bytes: its labels and annotations in JSON, and its spec as a protobuf
// if it is one, and else in JSON. One without Meta is not kept. Partial is source.Change.Partial.
// Created is when the object was made, as it says itself.
type packed struct {
	Meta, Spec []byte
	Partial    bool
	Created    time.Time
}

// packedOverhead is the size in bytes of a known object beside its content.
const packedOverhead = 160

// meta is what is kept of an object's metadata.
type meta struct{ Labels, Annotations map[string]string }

func (p packed) meta() (m meta) {
	_ = json.Unmarshal(p.Meta, &m) // it is what pack wrote
	return m
}

// isGenerated tells whether the control plane itself writes the object.
func (m meta) isGenerated() bool { return m.Annotations[kinds.RegisteredAnnotation] != "" }

func (p packed) size() int { return len(p.Meta) + len(p.Spec) }

func newObjects(budget int) *objects { return &objects{known: map[source.Key]packed{}, budget: budget} }

// isTold tells whether the fields of a kind are told. Others change all the time, are secret, or
// have contents that may be.
func isTold(k kinds.Kind) bool {
	switch k {
	case kinds.Pod, kinds.Node, kinds.EndpointSlice, kinds.Secret, kinds.ConfigMap:
		return false
	}
	return true
}

// keep remembers an object as it is now.
func (o *objects) keep(k source.Key, p packed) {
	o.forget(k)
	if o.size+p.size() > o.budget {
		p = packed{}
	}
	o.known[k] = p
	o.size += p.size() + packedOverhead
}

func (o *objects) forget(k source.Key) {
	if was, known := o.known[k]; known {
		o.size -= was.size() + packedOverhead
		delete(o.known, k)
	}
}

// change says what a change is, and what the object was before. It remembers the object.
func (o *objects) change(by cause) (told page.Cause, before replaced) {
	told = page.Cause{
		Kind: string(by.Kind), Namespace: by.Namespace, Name: by.Name, Verb: page.Changes, Origin: by.origin,
	}
	was, known := o.known[by.Key]
	is := o.learn(by)
	before = replaced{Key: by.Key, Gone: by.gone, Before: was}
	switch {
	case by.gone:
		told.Verb = page.Deleted
		return told, before
	case by.object == nil:
		return told, before
	}
	if last := by.object.GetManagedFields(); len(last) > 0 && last[0].Time != nil { // sources leave the last alone
		told.Manager, told.Written = last[0].Manager, last[0].Time.Time
	}
	switch {
	case !known:
		before.Created = by.created()
		if before.Created.IsZero() || by.at.Sub(before.Created) < stale { // else it could not be read before
			told.Verb = page.Created
		}
	case was.Meta != nil:
		differ := fields.Between(was.tree(by.Kind), is.tree(by.Kind))
		told.Fields = differ[:min(len(differ), maxFields)]
		told.MoreFields = len(differ) - len(told.Fields)
	}
	return told, before
}

// learn remembers an object as a change leaves it, and returns that.
func (o *objects) learn(by cause) (is packed) {
	switch {
	case by.gone:
		o.forget(by.Key)
	case by.object != nil:
		is = pack(by.object, by.partial)
		o.keep(by.Key, is)
	}
	return is
}

func pack(o metav1.Object, partial bool) packed {
	p := packed{Partial: partial, Created: o.GetCreationTimestamp().Time}
	p.Meta, _ = json.Marshal(map[string]map[string]string{ // strings are always JSON
		"labels": o.GetLabels(), "annotations": o.GetAnnotations(),
	})
	spec := reflect.ValueOf(o).Elem().FieldByName("Spec")
	switch {
	case !spec.IsValid():
	case isMessage(spec):
		options := proto.MarshalOptions{Deterministic: true}                 // equal ones are the same bytes
		p.Spec, _ = options.Marshal(spec.Addr().Interface().(proto.Message)) // it was decoded: it can be encoded
	default:
		p.Spec, _ = json.Marshal(spec.Interface())
	}
	return p
}

func isMessage(spec reflect.Value) bool {
	_, is := spec.Addr().Interface().(proto.Message)
	return is
}

// tree returns an object of a kind in JSON, decoded.
func (p packed) tree(k kinds.Kind) any {
	tree := map[string]any{"metadata": decoded(p.Meta)}
	if spec := p.specTree(k); spec != nil {
		tree["spec"] = spec
	}
	return tree
}

// specTree returns the spec of an object of a kind in JSON, decoded; nil if the kind has none.
func (p packed) specTree(k kinds.Kind) any {
	o := k.NewObject()
	if o == nil {
		return nil
	}
	spec := reflect.ValueOf(o).Elem().FieldByName("Spec")
	if !spec.IsValid() {
		return nil
	}
	if !isMessage(spec) {
		return decoded(p.Spec)
	}
	message := spec.Addr().Interface().(proto.Message)
	if proto.Unmarshal(p.Spec, message) != nil { // it is what pack wrote
		return nil
	}
	text, _ := protojson.Marshal(message)
	tree := decoded(text)
	withNumbers(tree, message.ProtoReflect().Descriptor())
	return tree
}

func decoded(text []byte) (v any) {
	_ = json.Unmarshal(text, &v) // nil for what is no JSON
	return v
}
