package compile

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// emitter makes resources of the inputs of translations. It is the one place where a message
// becomes a resource: translated, patched, checked, encoded, with its references. One goroutine
// uses it at a time.
type emitter struct {
	store    *resource.Store
	refusals Refusals
	memos    map[string]anyMemo      // by the kind of translation
	referred *model.Interner[string] // names of resources that others refer to

	// planning is set while nothing that is refused is told, and unheard counts what is then. The
	// memos do not keep such a result: the step that makes it is to tell.
	planning bool
	unheard  int
}

// Refusals has a function for each sort of thing that cannot be served as it was compiled. All
// fields must be set.
type Refusals struct {
	// Endpoint gets an endpoint that must not be encoded and is left out.
	Endpoint func(model.Endpoint, error)
	// Resource gets a resource that breaks a rule for which Envoy would refuse a whole response. It
	// is left out or closed, and all others go on.
	Resource func(name string, err error)
	// Patch gets a patch that cannot be applied to a resource. It alone is left out there.
	Patch func(RefusedPatch)
}

// RefusedPatch is a patch that cannot be applied.
type RefusedPatch struct {
	Owner    source.Key // the object that has it
	Index    int        // in its configPatches
	Resource string
	Err      error
}

func newEmitter(store *resource.Store, refusals Refusals) *emitter {
	e := &emitter{store: store, memos: map[string]anyMemo{}, referred: model.NewInterner[string]()}
	e.refusals = Refusals{
		Endpoint: func(of model.Endpoint, err error) { e.tell(func() { refusals.Endpoint(of, err) }) },
		Resource: func(name string, err error) { e.tell(func() { refusals.Resource(name, err) }) },
		Patch:    func(p RefusedPatch) { e.tell(func() { refusals.Patch(p) }) },
	}
	return e
}

// tell tells what is refused, unless it is of a plan.
func (e *emitter) tell(refusal func()) {
	if e.planning {
		e.unheard++
		return
	}
	refusal()
}

// plan runs f while nothing is told.
func (e *emitter) plan(f func()) {
	e.planning = true
	defer func() { e.planning = false }()
	f()
}

// validatable is a message that checks the rules of its fields (protoc-gen-validate). Envoy checks
// the same rules, and refuses a whole response for one message that breaks them.
type validatable interface {
	proto.Message
	Validate() error
}

// made is what a translation makes of an input.
type made struct {
	name    string
	message validatable // nil for nothing
	traits  resource.Traits
	table   string // of a virtual host: its route table
	// closed returns what takes the place of a message that cannot be served. Without it there is
	// no resource then.
	closed func() validatable
}

// emission is all that a resource is made of.
type emission[In comparable] struct {
	in In
	patched
}

// translation is a translation to messages, and the resources that were made of them.
type translation[In comparable] struct {
	*memo[emission[In]]
	// matched is what became of the patches of an emission.
	matched map[emission[In]]*resource.Resource
}

// emitted is what an emission came to.
type emitted struct {
	*resource.Resource // nil for nothing
	// matched is what became of its patches (matchesOf); nil if there are none.
	matched *resource.Resource
}

// unpatched is a resource that no patch can change.
func unpatched(r *resource.Resource) emitted { return emitted{Resource: r} }

// declare adds a kind of translation to those of the emitter. Metrics call it by its kind.
func declare[In comparable](e *emitter, kind string, translate func(In) made) translation[In] {
	t := translation[In]{matched: map[emission[In]]*resource.Resource{}}
	t.memo = newMemo(e.store, func(of emission[In]) *resource.Resource {
		r := e.emit(translate(of.in), of.patched)
		if r.matched != nil {
			t.matched[of] = r.matched
		}
		return r.Resource
	})
	t.unheard = &e.unheard
	e.memos[kind] = t
	return t
}

// remember adds a kind of resource that is made otherwise than of one message.
func remember[In comparable](e *emitter, kind string, assemble func(In) *resource.Resource) *memo[In] {
	m := newMemo(e.store, assemble)
	m.unheard = &e.unheard
	e.memos[kind] = m
	return m
}

// get returns what an input comes to: nil for nothing, or for what cannot be served.
func (t translation[In]) get(in In) emitted { return t.with(in, patched{}) }

// with is get for a message that patches change. What they remove is nothing.
func (t translation[In]) with(in In, by patched) emitted {
	if by.by == nil {
		return emitted{Resource: t.memo.get(emission[In]{in: in})}
	}
	of := emission[In]{in, by}
	r := t.memo.get(of)
	return emitted{r, t.matched[of]}
}

// sweep forgets the results that are not live.
func (t translation[In]) sweep(live *resource.Live) {
	t.memo.sweep(live)
	for of := range t.matched {
		if _, known := t.results.Find(of); !known {
			delete(t.matched, of)
		}
	}
}

// emit makes a resource of a message, patched.
func (e *emitter) emit(m made, by patched) (out emitted) {
	if m.message == nil {
		return out
	}
	if by.by != nil {
		changed, outcome := by.apply(m)
		e.told(m.name, by.by, outcome)
		out.matched = matchesOf(m, by.by, outcome)
		m = changed
		if m.message == nil {
			return out
		}
	}
	out.Resource = e.resourceOf(m)
	return out
}

// resourceOf makes a resource of a message; nil for what cannot be served.
func (e *emitter) resourceOf(m made) *resource.Resource {
	r, err := e.encode(m)
	if err == nil {
		return r
	}
	e.refusals.Resource(m.name, err)
	if m.closed == nil {
		return nil
	}
	m.message = m.closed()
	if r, err = e.encode(m); err != nil {
		e.refusals.Resource(m.name, err)
		return nil
	}
	return r
}

// told tells which patches of a message were left out.
func (e *emitter) told(name string, by patch.Patches, out patch.Outcome) {
	for i, err := range out.Failed {
		if err != nil {
			p := by.At(i)
			e.refusals.Patch(RefusedPatch{Owner: p.Owner, Index: p.Index, Resource: name, Err: err})
		}
	}
}

// encode makes a resource of a message that keeps the rules of its fields. Its references are read
// from the message. A virtual host is encoded without its name, which depends on how it is sent.
func (e *emitter) encode(m made) (*resource.Resource, error) {
	host, ofTable := m.message.(*routev3.VirtualHost)
	if ofTable {
		host.Name = m.name
	}
	if err := m.message.Validate(); err != nil {
		return nil, err
	}
	if ofTable {
		host.Name = ""
	}
	body, err := pb.Marshal(m.message)
	if err != nil {
		return nil, err
	}
	m.traits.Refs = e.refsOf(m.message)
	if ofTable {
		return resource.NewVirtualHost(m.table, m.name, body, m.traits.Refs), nil
	}
	if _, head := m.message.(*routev3.RouteConfiguration); head {
		return resource.NewTableHead(m.name, body), nil
	}
	return resource.NewWith(m.name, body, m.traits), nil
}
