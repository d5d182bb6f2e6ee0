package compile

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Member is one connected proxy.
type Member struct {
	known   known
	variant *variant
	own     resource.Overlay
}

// Facts is what a proxy said of itself when it connected. Where a Pod record exists, labels and
// addresses are taken from it. Settings.Credentials is what the proxy may have at most, by what it
// proved and by the rights of its account; what the Pod record says of it is added here.
type Facts struct {
	Proxy scope.Proxy
	// Account is the service account that the proxy proved to have, in its own namespace; empty if
	// it proved none.
	Account string
	// Stated is what its Pod says of it, canonical; nil for nothing.
	Stated *model.Stated
}

// known are the Facts that each proxy has for itself. Stated its class has.
type known struct {
	Proxy   scope.Proxy
	Account string
}

// Name returns the name and the namespace of the proxy.
func (m *Member) Name() (name, namespace string) { return m.known.Proxy.Name, m.known.Proxy.Namespace }

func newMember(f Facts) *Member { return &Member{known: known{f.Proxy, f.Account}} }

// facts returns what a member said of itself when it connected.
func (m *Member) facts() Facts {
	f := Facts{Proxy: m.known.Proxy, Account: m.known.Account}
	if m.variant != nil {
		f.Stated = m.variant.class.key.Stated
	}
	return f
}

// Join adds a proxy and passes its place to placed. It compiles the class if the proxy is the first
// of it. placed runs before any later generation does, so that the proxy misses none.
func (c *Compiler) Join(f Facts, placed func(*Member, Placement)) {
	m := newMember(f)
	if c.tryJoin(m, f.Stated, placed) {
		return
	}
	c.buildMu.Lock()
	defer c.buildMu.Unlock()
	defer c.abandonBuild()
	for !c.tryJoin(m, f.Stated, placed) {
		c.buildFor(m, f.Stated)
	}
}

// tryJoin places a proxy and reports whether it did. It does not if the class would have to be
// compiled from nothing, which Join does in chunks.
func (c *Compiler) tryJoin(
	m *Member, stated *model.Stated, placed func(*Member, Placement),
) (entered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, has := c.keyOf(m, stated); !has {
		return false
	}
	c.members.add(m)
	placed(m, c.place(m, c.seatOf(m, stated)))
	c.matched.update(m.variant.class, c.builder.problems)
	if c.tell != nil {
		c.tell(c.builder.problems.Flush())
	}
	return true
}

// keyOf returns the class of a proxy, and whether it exists or can start from a base class.
func (c *compiled) keyOf(m *Member, stated *model.Stated) (key scope.Class, has bool) {
	key = c.seatOf(m, stated).key
	if c.noSharing || c.classes[key] != nil || c.built(key) != nil {
		return key, true
	}
	return key, baseFor(c.list, &key, scope.New(c.snapshot, &key)) != nil
}

// HasClass reports whether there is a class that a proxy would join, so that nothing is compiled
// for it.
func (c *Compiler) HasClass(f Facts) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	proxy, _ := resolve(c.snapshot, f)
	key := c.classifier.Classify(c.snapshot, proxy)
	key.Stated = f.Stated
	return c.classes[key] != nil
}

// Seat is what decides which class a proxy is of, and which variant of it. Seats can be compared:
// a class that is forgotten and made anew has another id, and the same Seat.
type Seat struct {
	class scope.Class
	near  model.Labels
}

// Seat returns the seat of a member. It may be called where Join passes one on.
func (m *Member) Seat() Seat { return Seat{m.variant.class.key, m.variant.near} }

// Left is the class that a proxy had which left.
type Left struct {
	Class resource.ClassID
	Seat  Seat
	// State is the last one of a class that was forgotten, as its last proxy left; else none.
	State resource.State
}

// Leave removes a proxy. A class without proxies is forgotten.
func (c *Compiler) Leave(m *Member) (was Left) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.members.remove(m) {
		return was
	}
	was.Class, was.Seat = m.variant.id, m.Seat()
	c.release(m.variant)
	if m.variant.members == 0 {
		was.State = m.variant.state
	}
	return was
}

func (c *compiled) release(at *variant) {
	old := at.class
	if at.members--; at.members == 0 {
		old.variants.drop(at)
	}
	old.members--
	if old.members == 0 {
		old.clearAllProblems(c.builder)
		c.matched.forget(old, c.builder.problems)
		delete(c.classes, old.key)
		c.list = slices.DeleteFunc(c.list, func(other *class) bool { return other == old })
	}
}
