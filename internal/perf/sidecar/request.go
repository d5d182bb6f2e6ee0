package sidecar

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of DeltaDiscoveryRequest and, in the other column, of DiscoveryRequest (envoy/service/discovery/v3/discovery.proto).
const (
	deltaNode, worldNode              = 1, 2
	deltaTypeURL, worldTypeURL        = 2, 4
	deltaSubscribe, worldNames        = 3, 3
	deltaUnsubscribe                  = 4
	deltaVersions                     = 5
	deltaNonce, worldNonce            = 6, 5
	deltaError, worldError            = 7, 6
	worldVersion                      = 1
	statusCode, statusMessage         = 1, 2 // google.rpc.Status
	mapKey, mapValue                  = 1, 2
	codeInternal               uint64 = 13 // what Envoy refuses with
)

// request is a message to be sent. Names and versions are encoded only when they go out, so that what waits for a window costs
// no memory.
type request struct {
	typ   Type
	delta bool
	// fields are the encoded ones that come first.
	fields []byte
	// names are subscribed to, or if they are not given those that a table refers to, each in an entry of its own.
	names []string
	of    *table
	drop  []string // names to unsubscribe from
	held  *table   // initial_resource_versions
}

// size is that of the message.
func (r *request) size() int {
	n := len(r.fields)
	for _, name := range r.names {
		n += 1 + protowire.SizeBytes(len(name))
	}
	for _, name := range r.drop {
		n += 1 + protowire.SizeBytes(len(name))
	}
	if r.of != nil {
		n += r.of.referBytes
	}
	if r.held != nil {
		n += r.held.versionBytes
	}
	return n
}

// subscribes makes the request subscribe to all that a table refers to.
func (r *request) subscribes(to *table) {
	if to.foreign > 0 {
		r.names = to.references()
		return
	}
	r.of = to
}

func (r *request) node(encoded []byte) {
	r.bytes(encoded, deltaNode, worldNode)
}

func (r *request) text(s string, delta, world protowire.Number) {
	r.fields = protowire.AppendTag(r.fields, r.number(delta, world), protowire.BytesType)
	r.fields = protowire.AppendString(r.fields, s)
}

func (r *request) bytes(b []byte, delta, world protowire.Number) {
	r.fields = protowire.AppendTag(r.fields, r.number(delta, world), protowire.BytesType)
	r.fields = protowire.AppendBytes(r.fields, b)
}

// refuse says why a response is not taken.
func (r *request) refuse(why string) {
	status := protowire.AppendTag(nil, statusCode, protowire.VarintType)
	status = protowire.AppendVarint(status, codeInternal)
	status = protowire.AppendTag(status, statusMessage, protowire.BytesType)
	r.bytes(protowire.AppendString(status, why), deltaError, worldError)
}

func (r *request) number(delta, world protowire.Number) protowire.Number {
	if r.delta {
		return delta
	}
	return world
}

// outbox are the requests that wait for room in the window, and how far the first of them has been written.
type outbox struct {
	queue []request
	begun bool
	index int // in names or drop
	stage int
	at    place
	spill []byte // encoded, and not written
}

func (o *outbox) empty() bool { return len(o.queue) == 0 && len(o.spill) == 0 }

// fill appends up to limit bytes of the messages, with gRPC's prefixes.
func (o *outbox) fill(b []byte, limit int) []byte {
	for end := len(b) + limit; ; {
		n := min(len(o.spill), end-len(b))
		b, o.spill = append(b, o.spill[:n]...), o.spill[n:]
		if len(b) == end {
			return b
		}
		o.spill = o.next(o.spill[:0])
		if len(o.spill) == 0 {
			o.spill = nil
			return b
		}
	}
}

// next appends the next piece: what comes first of a request, or one of its names or versions. Nothing at the end of all.
func (o *outbox) next(b []byte) []byte {
	for len(o.queue) > 0 {
		r := &o.queue[0]
		if !o.begun {
			o.begun = true
			b = binary.BigEndian.AppendUint32(append(b, 0), uint32(r.size()))
			return append(b, r.fields...)
		}
		for o.stage < len(stages) {
			if b = stages[o.stage](o, r, b); len(b) > 0 {
				return b
			}
			o.stage, o.index, o.at = o.stage+1, 0, place{}
		}
		o.queue = o.queue[1:]
		o.begun, o.stage = false, 0
	}
	o.queue = nil
	return b
}

// stages append one piece of one part of a request, nothing when the part is done.
var stages = [...]func(o *outbox, r *request, b []byte) []byte{
	func(o *outbox, r *request, b []byte) []byte { return o.name(b, r.names, deltaSubscribe) },
	func(o *outbox, r *request, b []byte) []byte {
		for r.of != nil {
			e := r.of.next(&o.at)
			if e == nil {
				return b
			}
			if len(e.refers) > 0 {
				return appendText(b, deltaSubscribe, e.refers[0])
			}
		}
		return b
	},
	func(o *outbox, r *request, b []byte) []byte { return o.name(b, r.drop, deltaUnsubscribe) },
	func(o *outbox, r *request, b []byte) []byte {
		for r.held != nil {
			e := r.held.next(&o.at)
			if e == nil {
				return b
			}
			if !e.absent {
				b = protowire.AppendTag(b, deltaVersions, protowire.BytesType)
				b = protowire.AppendVarint(b, uint64(versionSize(e)))
				return appendText(appendText(b, mapKey, e.name), mapValue, e.version)
			}
		}
		return b
	},
}

func (o *outbox) name(b []byte, of []string, field protowire.Number) []byte {
	if o.index == len(of) {
		return b
	}
	o.index++
	return appendText(b, field, of[o.index-1])
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}
