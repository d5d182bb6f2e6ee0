package history

import (
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// index tells what a block surely has not: Bloom filters of the names of causes, of classes and
// proxies, and of resources. A block with more than it names says so.
type index struct {
	causes, proxies, resources           bloom
	moreCauses, moreMoved, moreResources bool
	// gap is set if something before one of its generations is not known, of any proxy or at all.
	gap bool
	// oldest is the newest class before its second generation.
	oldest uint64
	some   bool
}

func newIndex() index {
	return index{causes: make(bloom, 32), proxies: make(bloom, 16), resources: make(bloom, 64)}
}

// indexSize is how many bytes an index takes.
const indexSize = 8 * (32 + 16 + 64)

func (x *index) add(e *entry) {
	x.moreCauses = x.moreCauses || e.MoreCauses > 0
	x.moreMoved = x.moreMoved || e.MoreMoved > 0
	x.gap = x.gap || e.Gap || e.Start
	if !x.some {
		x.some, x.oldest = true, e.LastClass
	}
	for _, c := range e.Causes {
		x.causes.add(c.Namespace)
		x.causes.add(c.Namespace + "/" + c.Name)
	}
	for i := range e.Objects {
		k := &e.Objects[i].Key
		x.causes.add(k.Namespace)
		x.causes.add(k.Namespace + "/" + k.Name)
	}
	for _, g := range e.Groups {
		x.moreResources = x.moreResources || g.Unknown
		for _, c := range g.Classes {
			x.proxies.add(classText(c))
		}
	}
	for _, m := range e.Moved {
		x.proxies.add(m.Proxy)
	}
	for i := range e.Undo {
		name := e.Undo[i].Name
		x.resources.add(name)
		if e.Undo[i].Type == resource.VirtualHost {
			x.resources.add(name[strings.LastIndexByte(name, '/')+1:])
		}
	}
}

// mayHave is false only if nothing in the block is what a query asks for, of a proxy that is of a
// class after it.
func (b *block) mayHave(q *Query, t *tracker) bool {
	x, o := &b.index, q.Object
	switch {
	case x.mayMove(t), x.mayEnd(t): // it has to be followed
		return true
	case !q.Until.IsZero() && b.first.After(q.Until), !x.mayConcern(t), !x.mayChange(q.Resource):
		return false
	case x.moreCauses || o.Namespace == "":
		return true
	case o.Name != "":
		return x.causes.mayHave(o.Namespace + "/" + o.Name)
	}
	return x.causes.mayHave(o.Namespace)
}

// mayMove tells whether a proxy may have got another class in the block.
func (x *index) mayMove(t *tracker) bool {
	return t.proxy != "" && (x.moreMoved || x.proxies.mayHave(t.proxy))
}

// mayEnd tells whether it may not be known what a proxy had before the block.
func (x *index) mayEnd(t *tracker) bool { return t.proxy != "" && (x.gap || t.class > x.oldest) }

// mayConcern tells whether a proxy may have got something in the block.
func (x *index) mayConcern(t *tracker) bool {
	return t.proxy == "" || x.proxies.mayHave(classText(t.class)) || x.mayMove(t)
}

// mayChange tells whether a resource may have changed in the block; "" is for any.
func (x *index) mayChange(name string) bool {
	return name == "" || x.moreResources || x.moreMoved || x.resources.mayHave(name)
}

func classText(id uint64) string { return strconv.FormatUint(id, 10) }

// bloom is a Bloom filter, of two bits for each name.
type bloom []uint64

func (b bloom) add(name string) {
	for _, bit := range b.bits(name) {
		b[bit>>6] |= 1 << (bit & 63)
	}
}

func (b bloom) mayHave(name string) bool {
	for _, bit := range b.bits(name) {
		if b[bit>>6]&(1<<(bit&63)) == 0 {
			return false
		}
	}
	return true
}

func (b bloom) bits(name string) [2]uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	sum, n := h.Sum64(), uint64(len(b)*64)
	return [2]uint64{sum % n, sum >> 32 % n}
}
