package fanout

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/view"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// Frame is one encoded DeltaDiscoveryResponse or DiscoveryResponse: parts to write one after another. Parts may be
// shared with other frames and with resources, so nobody changes them.
type Frame struct {
	Parts [][]byte
	Size  int // of all parts in bytes
}

// Fields of envoy.service.discovery.v3, and of google.protobuf.Any.
const (
	deltaSystemVersion protowire.Number = 1
	deltaResources     protowire.Number = 2
	deltaTypeURL       protowire.Number = 4
	deltaNonce         protowire.Number = 5
	deltaRemoved       protowire.Number = 6

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

// inlineLimit is the size from which on a body is not copied into the frame but becomes a part of its own.
const inlineLimit = 1024

// Encode makes the frame of a response to one proxy. The fields that streams have in common come first, so that their
// bytes can be shared; the fields of this stream (nonce, version, removals) follow, as protobuf allows.
func Encode(p session.Protocol, r session.Response, own view.Own) Frame {
	if p == session.StateOfTheWorld {
		return encodeStateOfTheWorld(r, own)
	}
	return encodeDelta(r, own)
}

func encodeDelta(r session.Response, own view.Own) Frame {
	var w frameWriter
	if r.Shared != nil {
		w.part(r.Shared.Frame(sharedDelta))
	} else {
		url := typeURL(r)
		w.buf = appendString(w.buf, deltaTypeURL, url)
		for _, res := range r.Upserts {
			body := own.Body(r.Type, res)
			w.buf = appendDeltaHead(w.buf, url, res.Name(), own.Version(res).String(), len(body))
			w.body(body)
		}
	}
	w.grow(tailSize(r))
	w.buf = appendString(w.buf, deltaNonce, r.Nonce)
	w.buf = appendString(w.buf, deltaSystemVersion, r.Version)
	for _, name := range r.Removed {
		w.buf = protowire.AppendTag(w.buf, deltaRemoved, protowire.BytesType)
		w.buf = protowire.AppendString(w.buf, name)
	}
	return w.frame()
}

// sharedDelta is the part of a delta response that all streams have in common which make the same step.
func sharedDelta(c *view.Change) []byte {
	url := c.Type.URL()
	size := sizeOfString(deltaTypeURL, url)
	for _, res := range c.Upserts {
		size += deltaHeadSize(url, res.Name(), res.Size()) + res.Size()
	}
	b := appendString(make([]byte, 0, size), deltaTypeURL, url)
	for _, res := range c.Upserts {
		body := res.Body()
		b = appendDeltaHead(b, url, res.Name(), res.Version().String(), len(body))
		b = append(b, body...)
	}
	return b
}

func encodeStateOfTheWorld(r session.Response, own view.Own) Frame {
	var w frameWriter
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
	return w.frame()
}

func typeURL(r session.Response) string {
	if r.Unknown != "" {
		return r.Unknown
	}
	return r.Type.URL()
}

// versionLength is the length of view.Version.String.
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

func tailSize(r session.Response) int {
	n := sizeOfString(deltaNonce, r.Nonce) + sizeOfString(deltaSystemVersion, r.Version)
	for _, name := range r.Removed {
		n += protowire.SizeTag(deltaRemoved) + protowire.SizeBytes(len(name))
	}
	return n
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
	w.cut()
	w.part(b)
}

func (w *frameWriter) part(b []byte) {
	if len(b) > 0 {
		w.parts = append(w.parts, b)
		w.size += len(b)
	}
}

// cut makes a part of what buf holds; later appends go behind it in the same array.
func (w *frameWriter) cut() {
	w.part(w.buf[:len(w.buf):len(w.buf)])
	w.buf = w.buf[len(w.buf):]
}

func (w *frameWriter) grow(n int) {
	if cap(w.buf)-len(w.buf) < n {
		w.buf = append(make([]byte, 0, len(w.buf)+n), w.buf...)
	}
}

func (w *frameWriter) frame() Frame {
	w.cut()
	return Frame{Parts: w.parts, Size: w.size}
}
