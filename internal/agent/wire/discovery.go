package wire

import "google.golang.org/protobuf/encoding/protowire"

// Variant are the field numbers of one of the two variants of the discovery protocol.
type Variant struct {
	Delta bool
	// Of requests. What only the other variant has is 0.
	RequestType, Names, Unsubscribe, Versions, Ack, Refusal protowire.Number
	// Of responses.
	Resources, ResponseType, Nonce, Removed protowire.Number
}

// Version is the number of version_info, in requests and responses of the state of the world.
const Version = 1

// Delta returns the incremental variant.
func Delta() *Variant {
	return &Variant{
		Delta:       true,
		RequestType: 2, Names: 3, Unsubscribe: 4, Versions: 5, Ack: 6, Refusal: 7,
		Resources: 2, ResponseType: 4, Nonce: 5, Removed: 6,
	}
}

// StateOfTheWorld returns the other variant.
func StateOfTheWorld() *Variant {
	return &Variant{
		Names: 3, RequestType: 4, Ack: 5, Refusal: 6,
		Resources: 2, ResponseType: 4, Nonce: 5,
	}
}

// Request is what is read of a discovery request. Names are visited apart, as a large one has
// thousands.
type Request struct {
	TypeURL string
	// Ack is the nonce of the response that it is about; empty for others.
	Ack string
	// IsRefusal says that the response was refused, for a Reason.
	IsRefusal bool
	Reason    string
	// Reports says that the client has resources from earlier.
	Reports bool
}

// ReadRequest reads a request.
func (v *Variant) ReadRequest(m *Message) (q Request, err error) {
	r := m.Reader()
	for f := (Field{}); r.Next(&f); {
		switch {
		case f.Size < 0: // none of these, whatever its number
		case f.Number == v.RequestType:
			q.TypeURL = r.String(f)
		case f.Number == v.Ack:
			q.Ack = r.String(f)
		case f.Number == v.Refusal:
			q.IsRefusal = true
			if q.Reason, err = readStatus(r.Message(f.Size)); err != nil {
				return q, err
			}
		default:
			q.Reports = q.Reports || f.Number == v.Versions && v.Delta || f.Number == Version && !v.Delta && f.Size > 0
			r.Pass(f)
		}
	}
	return q, r.Err()
}

// readStatus returns the message in a google.rpc.Status.
func readStatus(r Reader) (message string, err error) {
	for f := (Field{}); r.Next(&f); {
		if f.Number == 2 && f.Size >= 0 {
			message = r.String(f)
			continue
		}
		r.Pass(f)
	}
	return message, r.Err()
}

// Visitor is told the names in a request. They are valid during the call alone.
type Visitor struct{ Asked, Unsubscribed, Reported func(name []byte) }

// Visit calls the visitor. The request must be one that ReadRequest could read.
func (v *Variant) Visit(m *Message, to Visitor) {
	r := m.Reader()
	for f := (Field{}); r.Next(&f); {
		switch {
		case f.Size < 0:
		case f.Number == v.Names:
			to.Asked(r.Take(f.Size))
		case f.Number == v.Unsubscribe:
			to.Unsubscribed(r.Take(f.Size))
		case f.Number == v.Versions:
			entry := r.Message(f.Size)
			for e := (Field{}); entry.Next(&e); {
				if e.Number == 1 && e.Size >= 0 {
					to.Reported(entry.Take(e.Size))
				} else {
					entry.Pass(e)
				}
			}
		default:
			r.Pass(f)
		}
	}
}

// AppendString appends a field of text, or nothing if it is empty.
func AppendString(b []byte, n protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), text)
}

// AppendBytes appends a field of bytes.
func AppendBytes(b []byte, n protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), value)
}
