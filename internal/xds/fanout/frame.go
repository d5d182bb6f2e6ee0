package fanout

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// Frame is one encoded DeltaDiscoveryResponse or DiscoveryResponse: parts to write one after
// another. Parts may be shared with other frames and with resources, so they must not be changed.
type Frame struct {
	Parts [][]byte
	Size  int // of all parts in bytes
}

// Fields of envoy.service.discovery.v3, and of google.protobuf.Any.
const (
	deltaResources protowire.Number = 2
	deltaTypeURL   protowire.Number = 4
	deltaNonce     protowire.Number = 5
	deltaRemoved   protowire.Number = 6

	sotwVersion   protowire.Number = 1
	sotwResources protowire.Number = 2
	sotwTypeURL   protowire.Number = 4
	sotwNonce     protowire.Number = 5

	resourceVersion protowire.Number = 1
	resourceBody    protowire.Number = 2
	resourceName    protowire.Number = 3

	anyTypeURL protowire.Number = 1
	anyValue   protowire.Number = 2
)

// inlineLimit is the size from which on a body becomes a part of its own instead of being copied
// into the frame.
const inlineLimit = 1024

// Encode returns the frame of a response to one proxy. The fields that streams have in common come
// first, so that their bytes can be shared. The fields of this stream (nonce, version, removals)
// follow, as protobuf allows.
func Encode(p session.Protocol, r session.Response, own resource.Overlay) Frame {
	var f Frame
	f.Encode(p, &r, &own)
	return f
}

// Encode encodes a response into the frame, in place of what it held. A stream that sends one
// response after another needs only one list of parts.
func (f *Frame) Encode(p session.Protocol, r *session.Response, own *resource.Overlay) {
	w := frameWriter{parts: f.Parts[:0]}
	if p == session.StateOfTheWorld {
		w.stateOfTheWorld(r, own)
	} else {
		w.delta(r, own)
	}
	w.endPart()
	f.Parts, f.Size = w.parts, w.size
}

// Release drops all bytes.
func (f *Frame) Release() {
	if cap(f.Parts) > usualParts {
		f.Parts = nil
	}
	clear(f.Parts)
	f.Parts, f.Size = f.Parts[:0], 0
}

// usualParts is how many parts a frame has whose first part is shared.
const usualParts = 2

func (w *frameWriter) delta(r *session.Response, own *resource.Overlay) {
	removed := r.Removed
	switch {
	case r.Type == resource.LbEndpoint && r.Shared != nil: // only the nonce differs between its streams
		removed = nil
		w.members(r.Shared)
	case len(r.Upserts) >= manyResources:
		w.resources(r, own)
	case r.Shared != nil:
		w.part(r.Shared.Frame(sharedDelta))
	default:
		w.buf = appendString(w.buf, deltaTypeURL, typeURL(r))
		for _, res := range r.Upserts {
			w.resource(r, res, own)
		}
	}
	w.grow(sizeOfString(deltaNonce, r.Nonce) + removedSize(removed))
	w.buf = appendString(w.buf, deltaNonce, r.Nonce)
	w.buf = appendRemoved(w.buf, removed)
}

func (w *frameWriter) resource(r *session.Response, res *resource.Resource, own *resource.Overlay) {
	body := own.Body(r.Type, res)
	w.buf = appendDeltaHead(w.buf, typeURL(r), res.Name(), own.Version(res).String(), len(body))
	w.body(body)
}

// manyResources is how many resources a response must have for each to be a part of its own, which
// is encoded once and kept with the resource. First responses to new clients have thousands of
// resources, which nearly all belong to other classes too. To keep the whole frame for each class
// would cost far more memory.
const manyResources = 64

func (w *frameWriter) resources(r *session.Response, own *resource.Overlay) {
	w.parts = slices.Grow(w.parts, len(r.Upserts)+usualParts)
	for _, res := range r.Upserts {
		if res.HasPlaceholders() {
			w.resource(r, res, own)
			continue
		}
		w.endPart()
		w.part(res.Framed(r.Type, encodedResource))
	}
	w.buf = appendString(w.buf, deltaTypeURL, typeURL(r))
}

// members writes members of LEDS collections. What a client gets when it has none comes in chunks,
// a change in one part.
func (w *frameWriter) members(c *resource.Change) {
	chunks := c.Chunks(encodedMembers)
	if chunks == nil {
		w.part(c.Frame(changedMembers))
		return
	}
	w.parts = slices.Grow(w.parts, len(chunks)+usualParts)
	for _, chunk := range chunks {
		w.part(chunk)
	}
	w.buf = appendString(w.buf, deltaTypeURL, c.Type.URL())
}

func changedMembers(c *resource.Change) []byte {
	shared := sharedDelta(c)
	return appendRemoved(slices.Grow(shared, removedSize(c.Removed)), c.Removed)
}

func encodedMembers(members []*resource.Resource) []byte {
	url := resource.LbEndpoint.URL()
	return appendResources(make([]byte, 0, resourcesSize(url, members)), url, members)
}

// encodedResource returns a resource as it stands in a delta response.
func encodedResource(t resource.Type, res *resource.Resource) []byte {
	return appendResource(make([]byte, 0, deltaSize(t.URL(), res)), t.URL(), res)
}

func appendResource(b []byte, url string, res *resource.Resource) []byte {
	body := res.Body()
	return append(appendDeltaHead(b, url, res.Name(), res.Version().String(), len(body)), body...)
}

func deltaSize(url string, res *resource.Resource) int {
	return deltaHeadSize(url, res.Name(), res.Size()) + res.Size()
}

// sharedDelta returns the part of a delta response that is the same for all streams that make the
// same step.
func sharedDelta(c *resource.Change) []byte {
	url := c.Type.URL()
	b := make([]byte, 0, sizeOfString(deltaTypeURL, url)+resourcesSize(url, c.Upserts))
	return appendResources(appendString(b, deltaTypeURL, url), url, c.Upserts)
}

func appendResources(b []byte, url string, list []*resource.Resource) []byte {
	for _, res := range list {
		b = appendResource(b, url, res)
	}
	return b
}

func resourcesSize(url string, list []*resource.Resource) (size int) {
	for _, res := range list {
		size += deltaSize(url, res)
	}
	return size
}

func (w *frameWriter) stateOfTheWorld(r *session.Response, own *resource.Overlay) {
	url := typeURL(r)
	w.buf = appendString(w.buf, sotwTypeURL, url)
	for _, res := range r.Upserts {
		body := own.Body(r.Type, res)
		w.buf = protowire.AppendTag(w.buf, sotwResources, protowire.BytesType)
		w.buf = protowire.AppendVarint(w.buf, uint64(anySize(url, len(body))))
		w.buf = appendAnyHead(w.buf, url, len(body))
		w.body(body)
	}
	w.buf = appendString(w.buf, sotwNonce, r.Nonce)
	w.buf = appendString(w.buf, sotwVersion, r.Version)
}

func typeURL(r *session.Response) string {
	if r.Unknown != "" {
		return r.Unknown
	}
	return r.Type.URL()
}

// versionLength is the length of resource.Version.String.
const versionLength = 16

// appendDeltaHead appends a Resource up to the bytes of its body, which are its end.
func appendDeltaHead(b []byte, url, name, version string, body int) []byte {
	b = protowire.AppendTag(b, deltaResources, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(deltaResourceSize(url, name, body)))
	b = appendString(b, resourceName, name)
	b = appendString(b, resourceVersion, version)
	b = protowire.AppendTag(b, resourceBody, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(anySize(url, body)))
	return appendAnyHead(b, url, body)
}

func appendAnyHead(b []byte, url string, body int) []byte {
	b = appendString(b, anyTypeURL, url)
	b = protowire.AppendTag(b, anyValue, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(body))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}

func deltaHeadSize(url, name string, body int) int {
	resource := deltaResourceSize(url, name, body)
	return protowire.SizeTag(deltaResources) + protowire.SizeBytes(resource) - body
}

func deltaResourceSize(url, name string, body int) int {
	return sizeOfString(resourceName, name) + protowire.SizeTag(resourceVersion) + protowire.SizeBytes(versionLength) +
		protowire.SizeTag(resourceBody) + protowire.SizeBytes(anySize(url, body))
}

func anySize(url string, body int) int {
	return sizeOfString(anyTypeURL, url) + protowire.SizeTag(anyValue) + protowire.SizeBytes(body)
}

func removedSize(names []string) (n int) {
	for _, name := range names {
		n += protowire.SizeTag(deltaRemoved) + protowire.SizeBytes(len(name))
	}
	return n
}

func appendRemoved(b []byte, names []string) []byte {
	for _, name := range names {
		b = protowire.AppendTag(b, deltaRemoved, protowire.BytesType)
		b = protowire.AppendString(b, name)
	}
	return b
}

func sizeOfString(field protowire.Number, s string) int {
	if s == "" {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeBytes(len(s))
}

// frameWriter collects parts: small pieces in buf, large ones by reference.
type frameWriter struct {
	parts [][]byte
	buf   []byte // what follows the last part
	size  int
}

func (w *frameWriter) body(b []byte) {
	if len(b) < inlineLimit {
		w.buf = append(w.buf, b...)
		return
	}
	w.endPart()
	w.part(b)
}

func (w *frameWriter) part(b []byte) {
	if len(b) > 0 {
		if w.parts == nil {
			w.parts = make([][]byte, 0, usualParts)
		}
		w.parts = append(w.parts, b)
		w.size += len(b)
	}
}

// endPart makes a part of what buf holds. Later appends go behind it in the same array.
func (w *frameWriter) endPart() {
	w.part(w.buf[:len(w.buf):len(w.buf)])
	w.buf = w.buf[len(w.buf):]
}

func (w *frameWriter) grow(n int) {
	if cap(w.buf)-len(w.buf) < n {
		w.buf = append(make([]byte, 0, len(w.buf)+n), w.buf...)
	}
}
