package sidecar

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of DeltaDiscoveryRequest and of DiscoveryRequest
// (envoy/service/discovery/v3/discovery.proto).
const (
	deltaNode, sotwNode              = 1, 2
	deltaTypeURL, sotwTypeURL        = 2, 4
	deltaSubscribe, sotwNames        = 3, 3
	deltaUnsubscribe                 = 4
	deltaVersions                    = 5
	deltaNonce, sotwNonce            = 6, 5
	deltaError, sotwError            = 7, 6
	sotwVersion                      = 1
	statusCode, statusMessage        = 1, 2 // google.rpc.Status
	mapKey, mapValue                 = 1, 2
	codeInternal              uint64 = 13 // the code of Envoy's NACKs
)

// request is a message to send. Names and versions are encoded when they are sent, so that a
// request that waits for a window needs little memory.
type request struct {
	typ   Type
	delta bool
	// fields are the encoded fields, which come first.
	fields []byte
	// names are subscribed to. Without them, the names that the table namesOf refers to are.
	names       []string
	namesOf     *table
	unsubscribe []string // names to unsubscribe from
	versions    *table   // initial_resource_versions
}

// size returns the size of the message.
func (r *request) size() int {
	n := len(r.fields)
	for _, name := range r.names {
		n += 1 + protowire.SizeBytes(len(name))
	}
	for _, name := range r.unsubscribe {
		n += 1 + protowire.SizeBytes(len(name))
	}
	if r.namesOf != nil {
		n += r.namesOf.referBytes
	}
	if r.versions != nil {
		n += r.versions.versionBytes
	}
	return n
}

// subscribeAll subscribes to all names that a table refers to.
func (r *request) subscribeAll(to *table) {
	if to.foreign > 0 {
		r.names = to.references()
		return
	}
	r.namesOf = to
}

func (r *request) node(encoded []byte) {
	r.bytes(encoded, deltaNode, sotwNode)
}

func (r *request) text(s string, delta, world protowire.Number) {
	r.fields = protowire.AppendTag(r.fields, r.number(delta, world), protowire.BytesType)
	r.fields = protowire.AppendString(r.fields, s)
}

func (r *request) bytes(b []byte, delta, world protowire.Number) {
	r.fields = protowire.AppendTag(r.fields, r.number(delta, world), protowire.BytesType)
	r.fields = protowire.AppendBytes(r.fields, b)
}

// refuse makes the request a NACK.
func (r *request) refuse(why string) {
	status := protowire.AppendTag(nil, statusCode, protowire.VarintType)
	status = protowire.AppendVarint(status, codeInternal)
	status = protowire.AppendTag(status, statusMessage, protowire.BytesType)
	r.bytes(protowire.AppendString(status, why), deltaError, sotwError)
}

func (r *request) number(delta, world protowire.Number) protowire.Number {
	if r.delta {
		return delta
	}
	return world
}

// outbox is the queue of requests that wait for the window, and how far the first of them has been
// written.
type outbox struct {
	queue   []request
	begun   bool
	index   int // in names or drop
	stage   int
	at      position
	encoded []byte // encoded, and not written
}

func (o *outbox) empty() bool { return len(o.queue) == 0 && len(o.encoded) == 0 }

// fill appends up to limit bytes of the messages, with gRPC's prefixes.
func (o *outbox) fill(b []byte, limit int) []byte {
	for end := len(b) + limit; ; {
		n := min(len(o.encoded), end-len(b))
		b, o.encoded = append(b, o.encoded[:n]...), o.encoded[n:]
		if len(b) == end {
			return b
		}
		o.encoded = o.next(o.encoded[:0])
		if len(o.encoded) == 0 {
			o.encoded = nil
			return b
		}
	}
}

// next appends the next piece of the queue: the fields of a request, or one of its names or
// versions. It appends nothing if the queue is empty.
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
			o.stage, o.index, o.at = o.stage+1, 0, position{}
		}
		o.queue = o.queue[1:]
		o.begun, o.stage = false, 0
	}
	o.queue = nil
	return b
}

// stages append one piece of one part of a request, or nothing when the part is complete.
var stages = [...]func(o *outbox, r *request, b []byte) []byte{
	func(o *outbox, r *request, b []byte) []byte { return o.name(b, r.names, deltaSubscribe) },
	func(o *outbox, r *request, b []byte) []byte {
		for r.namesOf != nil {
			e := r.namesOf.next(&o.at)
			if e == nil {
				return b
			}
			if len(e.refers) > 0 {
				return appendText(b, deltaSubscribe, e.refers[0])
			}
		}
		return b
	},
	func(o *outbox, r *request, b []byte) []byte { return o.name(b, r.unsubscribe, deltaUnsubscribe) },
	func(o *outbox, r *request, b []byte) []byte {
		for r.versions != nil {
			e := r.versions.next(&o.at)
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
