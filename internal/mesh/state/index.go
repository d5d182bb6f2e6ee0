package state

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// index is a persistent map in the order of its keys. Keys are made by join and order: parts end
// with a zero byte, so that a prefix of whole parts selects exactly what begins with them.
type index[T any] struct{ entries *btree[entry[T]] }

type entry[T any] struct {
	key   []byte
	value T
}

func newIndex[T any](lookups *atomic.Uint64) index[T] {
	return index[T]{newBTree(lookups, func(a, b *entry[T]) int { return bytes.Compare(a.key, b.key) })}
}

// at is the place of a key among entries.
func at[T any](key []byte) func(*entry[T]) int {
	return func(e *entry[T]) int { return bytes.Compare(e.key, key) }
}

func (ix index[T]) get(key []byte) (found T, ok bool) {
	if e := ix.entries.get(at[T](key)); e != nil {
		return e.value, true
	}
	return found, false
}

func (ix index[T]) len() int { return ix.entries.size }

// under yields the values whose keys begin with prefix, in order. Questions of Snapshot are this
// call and nothing else, so that the compiler inlines them into the loops of their callers. A
// question with a branch costs each loop its closures on the heap: ask first whether there is
// anything (Snapshot.HasAliases).
func (ix index[T]) under(prefix []byte) iter.Seq[T] {
	return func(yield func(T) bool) {
		hasPrefix := func(e *entry[T]) bool { return bytes.HasPrefix(e.key, prefix) }
		for e := range ix.entries.from(at[T](prefix), hasPrefix) {
			if !yield(e.value) {
				return
			}
		}
	}
}

// after yields the values whose keys begin with prefix and come after key, in order.
func (ix index[T]) after(prefix, key []byte) iter.Seq[T] {
	return func(yield func(T) bool) {
		for e := range ix.entries.from(at[T](key), func(e *entry[T]) bool { return bytes.HasPrefix(e.key, prefix) }) {
			if !bytes.Equal(e.key, key) && !yield(e.value) {
				return
			}
		}
	}
}

// first is the first value whose key begins with prefix.
func (ix index[T]) first(prefix []byte) (T, bool) {
	for v := range ix.under(prefix) {
		return v, true
	}
	var none T
	return none, false
}

// put sets the value of a key. Whoever has the index as it was does not see it.
func (ix *index[T]) put(tx *txn, key []byte, v T) {
	ix.entries = ix.entries.with(tx, &entry[T]{key, v})
}

// drop removes a key, if it is there.
func (ix *index[T]) drop(tx *txn, key []byte) { ix.entries = ix.entries.without(tx, at[T](key)) }

func join(parts ...string) []byte {
	size := len(parts)
	for _, p := range parts {
		size += len(p)
	}
	return appendParts(make([]byte, 0, size), parts...)
}

func appendParts(k []byte, parts ...string) []byte {
	for _, p := range parts {
		k = append(append(k, p...), 0)
	}
	return k
}

// ordered is a key prefix followed by the object's place in the total order of model.Meta.Compare,
// so that walking the prefix meets the winner of a conflict first.
func ordered(prefix []byte, m *model.Meta, host model.Host) []byte {
	k := slices.Grow(prefix, 1+8+4+len(m.Namespace)+len(m.Name)+len(m.UID)+len(host))
	k = append(k, model.KindRank(m.Kind))
	k = binary.BigEndian.AppendUint64(k, uint64(m.Created)^1<<63) // so that times before 1970 come first
	return appendParts(k, m.Namespace, m.Name, m.UID, string(host))
}

// portPrefix begins the keys of services with a port of a protocol: what is told apart by SNI, what
// is not, and the rest.
func portPrefix(port uint16, p model.Protocol) []byte {
	kind := byte(2)
	switch p {
	case model.TLS:
		kind = 0
	case model.TCP, model.Auto:
		kind = 1
	}
	return append(binary.BigEndian.AppendUint16(nil, port), kind)
}

// reversed turns a host around, so that all names under a suffix share a prefix.
func reversed(h model.Host) []byte {
	k := make([]byte, len(h), len(h)+1)
	for i := range len(h) {
		k[len(h)-1-i] = h[i]
	}
	return k
}
