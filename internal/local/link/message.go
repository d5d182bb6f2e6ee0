package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
)

// delivery is a message of the mesh, one value of encoding/gob. (JSON would encode protobuf as
// base64.) Its parts take effect in the order of the fields.
type delivery struct {
	// Tokens are all valid tokens from now on; nil if they have not changed.
	Tokens  map[local.TokenHash]local.Identity
	Changes []change
	Reports []source.Report
	Synced  bool
	// Ask are questions: which proxies have accepted all that was delivered so far?
	Ask []uint64
}

// reply is a message of the control plane, as JSON: an answer or news.
type reply struct {
	Answer  uint64   `json:"answer,omitempty"` // the question's number
	Proxies []string `json:"proxies,omitempty"`
	// Error says why there is no answer.
	Error string          `json:"error,omitempty"`
	News  json.RawMessage `json:"news,omitempty"`
}

// change is a source.Change without ObservedAt. The object is JSON, or protobuf for a kind of
// Kubernetes itself, which changes often and costs a fifth in that form. Without either it was
// deleted.
type change struct {
	Key    source.Key
	Object []byte
	Proto  []byte
	Origin string
}

// encodable is implemented by objects of Kubernetes' own kinds.
type encodable interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func encode(c source.Change) (change, error) {
	out := change{Key: c.Key, Origin: c.Origin}
	if c.Object == nil {
		return out, nil
	}
	var err error
	if o, ok := c.Object.(encodable); ok {
		out.Proto, err = o.Marshal()
	} else {
		out.Object, err = json.Marshal(c.Object)
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", c.Key, err)
	}
	return out, nil
}

func (c change) decode(now time.Time) (source.Change, error) {
	out := source.Change{Key: c.Key, Origin: c.Origin, ObservedAt: now}
	if len(c.Object)+len(c.Proto) == 0 {
		return out, nil
	}
	if out.Object = c.Key.Kind.NewObject(); out.Object == nil {
		return out, fmt.Errorf("%s: a kind that is not read", c.Key)
	}
	o, ok := out.Object.(encodable)
	var err error
	switch {
	case len(c.Proto) == 0:
		err = json.Unmarshal(c.Object, out.Object)
	case ok:
		err = o.Unmarshal(c.Proto)
	default:
		err = errors.New("protobuf of a kind that has none")
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w", c.Key, err)
	}
	return out, nil
}

// batch is the latest of each key and each origin: what was delivered and not yet sent, or all that
// exists.
type batch struct {
	changes map[source.Key]source.Change
	reports map[string]source.Report
	synced  bool
}

func newBatch() batch {
	return batch{changes: map[source.Key]source.Change{}, reports: map[string]source.Report{}}
}

// add takes an event. A deleted object stays in the batch as a deletion.
func (b *batch) add(e source.Event) {
	for _, c := range e.Changes {
		b.changes[c.Key] = c
	}
	for _, r := range e.Reports {
		b.reports[r.Origin] = r
	}
	b.synced = b.synced || e.Synced
}

// forget drops what an event has deleted. It looks at the event's objects alone: there may be many
// others.
func (b *batch) forget(e source.Event) {
	for _, c := range e.Changes {
		if b.changes[c.Key].Object == nil {
			delete(b.changes, c.Key)
		}
	}
	for _, r := range e.Reports {
		if len(b.reports[r.Origin].Problems) == 0 {
			delete(b.reports, r.Origin)
		}
	}
}

func (b *batch) clone() batch {
	return batch{changes: maps.Clone(b.changes), reports: maps.Clone(b.reports), synced: b.synced}
}

// maxChanges is how many changes a delivery has at most. It bounds the memory that both ends need
// to encode and decode one.
const maxChanges = 128

// deliveries yields the batch in a fixed order. The last delivery has all that is not a change,
// with the questions.
func (b *batch) deliveries(ask []uint64) iter.Seq2[delivery, error] {
	return func(yield func(delivery, error) bool) {
		var d delivery
		for _, k := range slices.SortedFunc(maps.Keys(b.changes), source.Key.Compare) {
			if len(d.Changes) == maxChanges {
				if !yield(d, nil) {
					return
				}
				d.Changes = d.Changes[:0]
			}
			c, err := encode(b.changes[k])
			if err != nil {
				yield(d, err)
				return
			}
			d.Changes = append(d.Changes, c)
		}
		for _, origin := range slices.Sorted(maps.Keys(b.reports)) {
			d.Reports = append(d.Reports, b.reports[origin])
		}
		d.Synced, d.Ask = b.synced, ask
		yield(d, nil)
	}
}

// reset empties a delivery for the next decoding. It keeps the buffers of its changes unless they
// are large: with ten thousand changes a second they would be most of the garbage.
func (d *delivery) reset() {
	const large = 16 << 10
	changes := d.Changes[:cap(d.Changes)]
	for i := range changes {
		c := &changes[i]
		if cap(c.Object)+cap(c.Proto) > large {
			*c = change{}
		}
		*c = change{Object: c.Object[:0], Proto: c.Proto[:0]}
	}
	*d = delivery{Changes: changes[:0]}
}

// event returns a delivery as an event that was observed now.
func (d *delivery) event(now time.Time) (source.Event, error) {
	e := source.Event{Changes: make([]source.Change, 0, len(d.Changes)), Reports: d.Reports, Synced: d.Synced}
	for _, c := range d.Changes {
		decoded, err := c.decode(now)
		if err != nil {
			return e, err
		}
		e.Changes = append(e.Changes, decoded)
	}
	return e, nil
}
