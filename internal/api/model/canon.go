package model

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"reflect"
	"runtime"
	"sync"
	"weak"
)

// Pool makes values of one type canonical: equal content, followed through pointers, gets one
// pointer. Conversions use it for parts of translation inputs, such as routes and traffic policies.
// So the parts of an object that did not change keep their pointers. It holds values weakly and is
// safe for concurrent use.
type Pool[T any] struct {
	mu    sync.Mutex
	known map[[16]byte]weak.Pointer[T]
}

// NewPool returns an empty pool.
func NewPool[T any]() *Pool[T] { return &Pool[T]{known: map[[16]byte]weak.Pointer[T]{}} }

// Canonical returns the one pointer for the content of v, which must not be changed afterwards. Nil
// stays nil.
func (p *Pool[T]) Canonical(v *T) *T {
	if v == nil {
		return nil
	}
	print := Fingerprint(v)
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known[print].Value(); known != nil {
		return known
	}
	p.known[print] = weak.Make(v)
	runtime.AddCleanup(v, p.forget, print)
	return v
}

func (p *Pool[T]) forget(print [16]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[print].Value() == nil {
		delete(p.known, print)
	}
}

// Fingerprint returns a hash of a model value's content, followed through pointers, slices and
// structs. Equal content has equal fingerprints in every process. Model types hold no maps,
// functions or interfaces. A type with one panics in its tests, never on a user's input.
func Fingerprint(v any) [16]byte {
	p := hasher{h: sha256.New(), buffer: make([]byte, 0, 2*hashChunk)}
	p.add(reflect.ValueOf(v))
	var sum [sha256.Size]byte
	p.h.Write(p.buffer)
	p.h.Sum(sum[:0])
	return [16]byte(sum[:16])
}

// hasher hashes values, many small parts at a time.
type hasher struct {
	h      hash.Hash
	buffer []byte // not hashed yet
}

const hashChunk = 512

func (p *hasher) number(n uint64) {
	if len(p.buffer) >= hashChunk {
		p.h.Write(p.buffer)
		p.buffer = p.buffer[:0]
	}
	p.buffer = binary.LittleEndian.AppendUint64(p.buffer, n)
}

func (p *hasher) add(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		p.number(uint64(v.Len()))
		p.buffer = append(p.buffer, v.String()...)
	case reflect.Bool:
		if v.Bool() {
			p.number(1)
		} else {
			p.number(0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.number(v.Uint())
	case reflect.Slice:
		p.number(uint64(v.Len()))
		for i := range v.Len() {
			p.add(v.Index(i))
		}
	case reflect.Pointer:
		if v.IsNil() {
			p.number(0)
			return
		}
		p.number(1)
		p.add(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			p.add(v.Field(i))
		}
	default:
		panic(fmt.Sprintf("model.Fingerprint: %s in a model type", v.Type()))
	}
}
