package status

import (
	"maps"
	"slices"
	"sync"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Attachments holds what each object of the Gateway API has come to, and the generation that it is
// of. It grows with the number of objects. It is safe for concurrent use.
type Attachments struct {
	mu      sync.Mutex
	objects map[source.Key]attached
	batches
}

// attached is an object that exists.
type attached struct {
	generation int64
	status     *model.GatewayAPIStatus // nil for an object that is not Lateen's
	// undeployed says what keeps a Gateway from being deployed as it says. It has no reason if
	// nothing does.
	undeployed model.Condition
}

// AttachmentChange is what an object has come to; nil if it is not Lateen's, or gone.
type AttachmentChange struct {
	Key    source.Key
	Status *model.GatewayAPIStatus
}

// NewAttachments returns Attachments without any object.
func NewAttachments() *Attachments {
	return &Attachments{objects: map[source.Key]attached{}, batches: newBatches()}
}

// Compiled takes the statuses of a generation. They are passed on with Applied, which follows.
func (a *Attachments) Compiled(changes []AttachmentChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		o := a.objects[c.Key]
		o.status = c.Status
		a.objects[c.Key] = o
		a.changed[c.Key] = true
	}
}

// Applied takes the changes of a compiled batch, with the generations that they are of.
func (a *Attachments) Applied(changes []source.Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		switch {
		case kinds.Of(c.Key.Kind).Status != kinds.Attachments:
		case c.Object == nil:
			delete(a.objects, c.Key)
			a.changed[c.Key] = true
		default:
			o := a.objects[c.Key]
			if generation := c.Object.GetGeneration(); o.generation != generation || o.status == nil {
				o.generation = generation
				a.objects[c.Key] = o
				a.changed[c.Key] = true
			}
		}
	}
	a.ended()
}

// Deployed takes what keeps a Gateway from being deployed; a condition without a reason is nothing.
// It reports whether that is new.
func (a *Attachments) Deployed(k source.Key, undeployed model.Condition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, known := a.objects[k]
	if !known || o.undeployed == undeployed {
		return false
	}
	o.undeployed = undeployed
	a.objects[k] = o
	if a.listener != nil {
		a.listener(k)
	}
	return true
}

// get returns what is known of an object; ok is false for one that does not exist.
func (a *Attachments) get(k source.Key) (o attached, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, ok = a.objects[k]
	return o, ok
}

// listen sets the listener, and returns the objects that are Lateen's.
func (a *Attachments) listen(listener func(source.Key)) []source.Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listener = listener
	ours := maps.Clone(a.objects)
	maps.DeleteFunc(ours, func(_ source.Key, o attached) bool { return o.status == nil })
	return slices.SortedFunc(maps.Keys(ours), source.Key.Compare)
}
