package world

import (
	"bytes"
	"encoding/binary"
	"iter"
	"sync/atomic"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// index is a persistent map in the order of its keys. Keys are made by join and order: parts end with a zero byte, so that a
// prefix of whole parts selects exactly what begins with them.
//
// It counts the entries that are looked at, on the one counter of a Writer's worlds: that no look-up costs more in a larger mesh
// is a promise, and tests hold it to that.
type index[T any] struct {
	tree    *iradix.Tree[T]
	lookups *atomic.Uint64
}

func newIndex[T any](lookups *atomic.Uint64) index[T] { return index[T]{iradix.New[T](), lookups} }

func (ix index[T]) get(key []byte) (T, bool) {
	ix.lookups.Add(1)
	return ix.tree.Get(key)
}

func (ix index[T]) len() int { return ix.tree.Len() }

// under yields the values whose keys begin with prefix, in order.
func (ix index[T]) under(prefix []byte) iter.Seq[T] {
	return func(yield func(T) bool) {
		ix.lookups.Add(1)
		ix.tree.Root().WalkPrefix(prefix, func(_ []byte, v T) bool {
			ix.lookups.Add(1)
			return !yield(v)
		})
	}
}

// after yields the values whose keys begin with prefix and come after key, in order.
func (ix index[T]) after(prefix, key []byte) iter.Seq[T] {
	return func(yield func(T) bool) {
		ix.lookups.Add(1)
		it := ix.tree.Root().Iterator()
		it.SeekLowerBound(key)
		for k, v, ok := it.Next(); ok && bytes.HasPrefix(k, prefix); k, v, ok = it.Next() {
			ix.lookups.Add(1)
			if !bytes.Equal(k, key) && !yield(v) {
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

// edit is an index while a batch is applied.
type edit[T any] struct {
	txn     *iradix.Txn[T]
	lookups *atomic.Uint64
}

func (ix index[T]) edit() edit[T] { return edit[T]{ix.tree.Txn(), ix.lookups} }

func (e edit[T]) put(key []byte, v T) { e.txn.Insert(key, v) }

func (e edit[T]) drop(key []byte) { e.txn.Delete(key) }

// commit ends a step and returns the index; the edit may go on from there.
func (e edit[T]) commit() index[T] { return index[T]{e.txn.CommitOnly(), e.lookups} }

func join(parts ...string) []byte {
	var k []byte
	for _, p := range parts {
		k = append(append(k, p...), 0)
	}
	return k
}

// ordered is a key prefix followed by the object's place in the total order of model.Meta.Compare, so that walking the prefix
// meets the winner of a conflict first.
func ordered(prefix []byte, m *model.Meta, host model.Host) []byte {
	rank := byte(0)
	if m.Kind == source.ServiceEntry {
		rank = 1
	}
	k := append(prefix, rank)
	k = binary.BigEndian.AppendUint64(k, uint64(m.Created)^1<<63) // so that times before 1970 come first
	return append(k, join(m.Namespace, m.Name, m.UID, string(host))...)
}

// portPrefix begins the keys of services with a port of a protocol: what is told apart by SNI, what is not, and the rest.
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
