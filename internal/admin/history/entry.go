package history

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// entry is a generation with what it replaced, so that what was before can be told. The groups have
// their resources in Undo alone.
type entry struct {
	page.Generation
	// Undo are the resources that it changed for anyone, and Of those of each group, as places in
	// Undo.
	Undo []undo
	Of   [][]uint32
	// Objects are those of its causes that changed, and those that changed before it and came to no
	// generation. MoreObjects are not remembered.
	Objects     []replaced
	MoreObjects int
	// LastClass is the newest class that there was: those that came later have higher numbers.
	LastClass uint64
	// Gap is set if the generation before is not remembered.
	Gap bool
}

// undo is a resource before a generation.
type undo struct {
	Type resource.Type
	Name string
	// Before and After are the versions, as bytes; empty for none.
	Before, After string
	// Body is the encoding before. Kept is set if it is remembered.
	Body         []byte
	Kept         bool
	Placeholders bool
}

// replaced is an object before a change. Before is nothing for one that is not known. That may be
// since it was not there: so it is for certain of each time before Created, which is when it was
// made, as it says itself.
type replaced struct {
	Key     source.Key
	Gone    bool
	Before  packed
	Created time.Time
	// At is when it changed, if that came to no generation.
	At time.Time
}

const (
	// maxUndo is how many resources of a generation are remembered.
	maxUndo = 20_000
	// maxBody is the size in bytes of the largest body that is remembered, and maxBodies of all of
	// a generation together.
	maxBody, maxBodies = 32 << 10, 256 << 10
	// maxEndpoints is the same of one that holds endpoints, of a generation that is not among the
	// newest: endpoints change all the time, and would push out what people write.
	maxEndpoints = 1 << 10
	// maxCompared is how many differences are looked at, over all classes.
	maxCompared = 200_000
)

// comparison notes what differs for classes and proxies.
type comparison struct {
	e       *entry
	places  map[undoKey]uint32
	groups  map[string]int // places of groups by what they got
	bodies  int            // bytes
	looked  int            // differences
	current []uint32
}

type undoKey struct {
	typ           resource.Type
	name          string
	before, after resource.Version
}

// compare fills groups: what classes got, and proxies that left theirs.
func (e *entry) compare(states []resource.ClassState, moved []Move) {
	c := &comparison{e: e, places: map[undoKey]uint32{}, groups: map[string]int{}}
	was := map[resource.ClassID]resource.State{}
	for _, s := range states {
		was[s.Class] = s.Was
		if g := c.groupOf(s.Was, s.State); g != nil {
			g.Classes = append(g.Classes, uint64(s.Class))
		}
	}
	for i, m := range moved {
		if i == maxMoved {
			return
		}
		if before, stepped := was[m.From]; stepped {
			m.Was = before
		}
		if g := c.groupOf(m.Was, m.State); g != nil {
			g.Proxies = append(g.Proxies, m.Proxy)
		}
	}
}

// unknownGroup is the key of the group of those at which nobody looked.
const unknownGroup = "unknown"

// groupOf returns the group of those that have come from one state to another.
func (c *comparison) groupOf(was, is resource.State) *page.Group {
	c.current = c.current[:0]
	if !c.diff(was, is) {
		return c.group(unknownGroup, nil, true)
	}
	slices.Sort(c.current)
	key := make([]byte, 0, 4*len(c.current))
	for _, place := range c.current {
		key = binary.LittleEndian.AppendUint32(key, place)
	}
	return c.group(string(key), c.current, false)
}

func (c *comparison) group(key string, places []uint32, unknown bool) *page.Group {
	at, known := c.groups[key]
	if !known {
		at = len(c.e.Groups)
		c.groups[key] = at
		c.e.Groups = append(c.e.Groups, page.Group{Unknown: unknown})
		c.e.Of = append(c.e.Of, slices.Clone(places))
	}
	return &c.e.Groups[at]
}

// diff notes in current what differs between two states. It returns false if that is too much.
func (c *comparison) diff(was, is resource.State) bool {
	if was.IsNone() || is.IsNone() || c.looked >= maxCompared {
		return false
	}
	whole := true
	for t := range resource.NumTypes {
		resource.Diff(was.Set(t), is.Set(t), func(before, after *resource.Resource) {
			c.looked++
			whole = whole && c.note(t, before, after)
		})
	}
	return whole
}

// note notes a resource. It returns false if there is no place for it.
func (c *comparison) note(t resource.Type, before, after *resource.Resource) bool {
	key := undoKey{typ: t}
	if before != nil {
		key.name, key.before = before.Name(), before.Version()
	}
	if after != nil {
		key.name, key.after = after.Name(), after.Version()
	}
	place, known := c.places[key]
	if !known {
		if len(c.e.Undo) == maxUndo {
			return false
		}
		place = uint32(len(c.e.Undo))
		c.places[key] = place
		c.e.Undo = append(c.e.Undo, c.undoOf(key, before))
	}
	c.current = append(c.current, place)
	return true
}

func (c *comparison) undoOf(key undoKey, before *resource.Resource) undo {
	u := undo{Type: key.typ, Name: key.name, Before: bytesOf(key.before), After: bytesOf(key.after)}
	if before == nil {
		u.Kept = true
		return u
	}
	u.Placeholders = before.HasPlaceholders()
	if n := before.Size(); key.typ != resource.Secret && n <= maxBody && c.bodies+n <= maxBodies {
		c.bodies += n
		u.Body, u.Kept = before.Body(), true
	}
	return u
}

func bytesOf(v resource.Version) string {
	if v.IsZero() {
		return ""
	}
	return string(v[:])
}

// version reads what bytesOf wrote.
func version(text string) (v resource.Version) {
	copy(v[:], text)
	return v
}

func versionText(text string) string {
	if text == "" {
		return ""
	}
	return version(text).String()
}

// shown returns the resource as people read it.
func (u *undo) shown() page.ChangedName {
	name := page.ChangedName{
		Type: u.Type.String(), Name: u.Name, Verb: page.Changes,
		Before: versionText(u.Before), After: versionText(u.After),
	}
	switch {
	case u.Before == "":
		name.Verb = page.Created
	case u.After == "":
		name.Verb = page.Deleted
	}
	return name
}

// maxResources is how many resources of a group are shown.
const maxResources = 50

// shown returns the generation with the resources of its groups, of which only those are shown that
// a question narrows it to; -1 is for all.
func (e *entry) shown(group int) page.Generation {
	g := e.Generation
	g.Groups, g.Gap = nil, e.Gap
	for i, of := range e.Groups {
		if group >= 0 && i != group {
			continue
		}
		for _, place := range e.Of[i][:min(len(e.Of[i]), maxResources)] {
			of.Resources = append(of.Resources, e.Undo[place].shown())
		}
		of.MoreResources = len(e.Of[i]) - len(of.Resources)
		g.Groups = append(g.Groups, of)
	}
	return g
}

// size is about how many bytes an entry takes.
func (e *entry) size() int {
	const each = 100
	n := each * (1 + len(e.Causes) + len(e.Undo) + len(e.Moved) + len(e.Objects) + len(e.Appeared) + len(e.Mended))
	for i := range e.Undo {
		n += len(e.Undo[i].Body) + len(e.Undo[i].Name)
	}
	for i := range e.Causes {
		n += 2 * each * len(e.Causes[i].Fields)
	}
	for i := range e.Objects {
		n += e.Objects[i].Before.size()
	}
	for i := range e.Groups {
		n += 8*len(e.Groups[i].Classes) + 4*len(e.Of[i]) + each*len(e.Groups[i].Proxies)
	}
	return n
}

// toSeal returns the entry with what is kept of it when it is not among the newest any more.
func (e *entry) toSeal() *entry {
	large := func(u undo) bool { return u.Type == resource.Endpoint && len(u.Body) > maxEndpoints }
	if !slices.ContainsFunc(e.Undo, large) {
		return e
	}
	kept := *e
	kept.Undo = slices.Clone(e.Undo)
	for i := range kept.Undo {
		if large(kept.Undo[i]) {
			kept.Undo[i].Body, kept.Undo[i].Kept = nil, false
		}
	}
	return &kept
}
