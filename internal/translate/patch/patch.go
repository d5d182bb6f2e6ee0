package patch

import (
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Patch is a patch that may match a message.
type Patch struct {
	*model.ConfigPatch
	Owner source.Key // the object that has it
	// Apart says that the filter that the patch adds is a resource of its own (ECDS), with the
	// filter's name. Its value may be Bare.
	Apart bool
}

// Patches are what may change a message: those of one class of proxies, in the order in which they
// are applied.
type Patches = *model.List[Patch]

// Outcome says what became of patches, by their place in the list.
type Outcome struct {
	// Matched counts what each of them changed, added or removed.
	Matched []int
	// Failed says why one was left out; nil for one that was not.
	Failed []error
}

// run applies patches once.
type run struct {
	patches Patches
	context model.PatchContext
	out     []bool // those that are left out
	Outcome
}

// message is a message that checks the rules of its fields, for a breach of which Envoy refuses it.
type message interface {
	proto.Message
	Validate() error
}

// task is what a run does to a message: it returns the changed one, nil for none.
type task[M message] struct {
	patches Patches
	context model.PatchContext
	do      func(*run, M) M
}

// on does the task on a message. A patch that fails, or that breaks a rule of the message's fields,
// is left out alone: nothing of it stays.
func (t task[M]) on(m M) (M, Outcome) {
	out := make([]bool, t.patches.Len())
	failed := make([]error, len(out))
	for {
		r, changed := t.without(out, m)
		if !r.addFailures(failed, out) {
			if isNil(changed) || changed.Validate() == nil || m.Validate() != nil {
				return changed, Outcome{r.Matched, failed}
			}
			t.leaveOutInvalid(m, r.Matched, failed)
			for i, err := range failed {
				out[i] = err != nil
			}
		}
	}
}

// without does the task without some patches. All of them fail if one makes it panic: what anybody
// can write must not end the control plane.
func (t task[M]) without(out []bool, m M) (r *run, changed M) {
	r = &run{patches: t.patches, context: t.context, out: out, Outcome: Outcome{
		Matched: make([]int, len(out)), Failed: make([]error, len(out)),
	}}
	defer func() {
		if cause := recover(); cause != nil {
			for i := range r.Failed {
				r.Failed[i] = fmt.Errorf("a mistake of Lateen's in a patch of this message: %v", cause)
			}
			changed = m
		}
	}()
	return r, t.do(r, proto.CloneOf(m))
}

// addFailures adds those of the run, and reports whether there are any.
func (r *run) addFailures(failed []error, out []bool) (any bool) {
	for i, err := range r.Failed {
		if err != nil {
			failed[i], out[i], any = err, true, true
		}
	}
	return any
}

// leaveOutInvalid finds the patches by which a message breaks a rule: it takes one after the other,
// and leaves out each after which the message does so.
func (t task[M]) leaveOutInvalid(m M, matched []int, failed []error) {
	out := make([]bool, len(matched))
	for i := range out {
		out[i] = true
	}
	for i, n := range matched {
		if n == 0 || failed[i] != nil {
			continue
		}
		out[i] = false
		if _, changed := t.without(out, m); !isNil(changed) {
			failed[i] = changed.Validate()
		}
		out[i] = failed[i] != nil
	}
}

func isNil(m proto.Message) bool { return !m.ProtoReflect().IsValid() }

// of yields the patches of a target for the context, but those that are left out.
func (r *run) of(target model.PatchTarget) iter.Seq2[int, Patch] {
	return func(yield func(int, Patch) bool) {
		for i := range r.patches.Len() {
			p := r.patches.At(i)
			if p.Target != target || r.out[i] || !p.IsFor(r.context) {
				continue
			}
			if !yield(i, p) {
				return
			}
		}
	}
}

// has reports whether there is a patch of a target.
func (r *run) has(target model.PatchTarget) bool {
	for range r.of(target) {
		return true
	}
	return false
}

// note notes what a patch did.
func (r *run) note(i, matched int, err error) {
	r.Matched[i] += matched
	if err != nil && r.Failed[i] == nil {
		r.Failed[i] = err
	}
}

// value returns the value of a patch, a new one each time. It is of the type of the patch's target,
// as the conversion has made it.
func value[M proto.Message](p Patch) (none M, err error) {
	of, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(p.Value.Type))
	if err != nil {
		return none, err
	}
	found := of.New().Interface()
	if err := proto.Unmarshal([]byte(p.Value.Body), found); err != nil {
		return none, err
	}
	m, is := found.(M)
	if !is {
		return none, fmt.Errorf("is a %s", p.Value.Type)
	}
	return m, nil
}

// merge merges the value of a patch into a message of the same type.
func merge[M proto.Message](p Patch, to M) error {
	from, err := value[M](p)
	if err != nil {
		return err
	}
	mergerOf(p).message(to.ProtoReflect(), from.ProtoReflect())
	return nil
}

// stays removes a message or merges into it, as a patch says, and notes that. It reports whether
// the message stays.
func (r *run) stays(i int, p Patch, merge func() error) bool {
	switch {
	case p.Operation == model.PatchRemove:
		r.note(i, 1, nil)
		return false
	case p.Operation.Merges():
		r.note(i, 1, merge())
	}
	return true
}

func mergerOf(p Patch) merger { return merger{replacesLists: p.Operation == model.PatchMergeLists} }
