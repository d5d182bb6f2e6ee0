package xdsproxy

import (
	"github.com/lateen-mesh/lateen/internal/agent/wire"
)

// response is what the proxy reads of a response. Resources are visited apart.
type response struct{ typeURL, nonce, version string }

func readResponse(v *wire.Variant, m *wire.Message) (p response, err error) {
	r := m.Reader()
	for f := (wire.Field{}); r.Next(&f); {
		switch {
		case f.Size < 0:
		case f.Number == v.ResponseType:
			p.typeURL = r.String(f)
		case f.Number == v.Nonce:
			p.nonce = r.String(f)
		case f.Number == wire.Version:
			p.version = r.String(f)
		default:
			r.Pass(f)
		}
	}
	return p, r.Err()
}

// item is a resource in a response.
type item struct {
	name, version string
	body          wire.Reader // the resource itself
	whole         wire.Reader // the message discovery.v3.Resource; delta only
}

// Field numbers of discovery.v3.Resource and google.protobuf.Any.
const (
	resourceVersion, resourceBody, resourceName = 1, 2, 3
	anyType, anyValue                           = 1, 2
)

// resourcesOf calls a function with each resource of a response, and one with the name of each that
// is removed. In the state of the world resources have no name beside them.
func resourcesOf(v *wire.Variant, m *wire.Message, p response, put func(item), removed func(name string)) error {
	r := m.Reader()
	for f := (wire.Field{}); r.Next(&f); {
		switch {
		case f.Size < 0:
		case f.Number == v.Resources:
			inner := r.Message(f.Size)
			i, err := readItem(inner, v.Delta)
			if err != nil {
				return err
			}
			if !v.Delta {
				i.version = p.version
			}
			put(i)
		case f.Number == v.Removed && v.Delta:
			removed(r.String(f))
		default:
			r.Pass(f)
		}
	}
	return r.Err()
}

func readItem(r wire.Reader, isDelta bool) (i item, err error) {
	if !isDelta {
		i.body, err = valueOf(r)
		return i, err
	}
	i.whole = r
	for f := (wire.Field{}); r.Next(&f); {
		switch {
		case f.Size < 0:
		case f.Number == resourceVersion:
			i.version = r.String(f)
		case f.Number == resourceName:
			i.name = r.String(f)
		case f.Number == resourceBody:
			if i.body, err = valueOf(r.Message(f.Size)); err != nil {
				return i, err
			}
		default:
			r.Pass(f)
		}
	}
	return i, r.Err()
}

// valueOf returns the message in a google.protobuf.Any.
func valueOf(r wire.Reader) (value wire.Reader, err error) {
	for f := (wire.Field{}); r.Next(&f); {
		if f.Number == anyValue && f.Size >= 0 {
			value = r.Message(f.Size)
		} else {
			r.Pass(f)
		}
	}
	return value, r.Err()
}

// nameIn returns the name in a resource of Envoy: its first field, in all types that have one.
func nameIn(body wire.Reader) string {
	for f := (wire.Field{}); body.Next(&f); {
		if f.Number == 1 {
			return body.String(f)
		}
		body.Pass(f)
	}
	return ""
}
