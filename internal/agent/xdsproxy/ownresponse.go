package xdsproxy

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
)

func isOwnNonce(nonce string) bool { return strings.HasPrefix(nonce, ownNonce) }

// answered takes in the answer to a response of the agent's own.
func (r *relay) answered(q wire.Request, m *wire.Message) error {
	if q.IsRefusal {
		r.proxy.counts.refusedFilters.Add(1)
		r.proxy.options.Log.Error("Envoy refuses a filter that was fetched for it, and keeps what it had",
			"reason", valid(q.Reason))
	}
	return r.passRest(m)
}

// passRest passes on what a request says beside its answer to a response of the agent's own.
func (r *relay) passRest(m *wire.Message) error {
	var rest []byte
	asks := false
	for in := m.Data.Materialize(); len(in) > 0; {
		number, _, n := protowire.ConsumeField(in)
		if n < 0 {
			return status.Error(codes.InvalidArgument, wire.ErrMalformed.Error())
		}
		asks = asks || number == r.v.Names || number == r.v.Unsubscribe
		if number != r.v.Ack && number != r.v.Refusal {
			rest = append(rest, in[:n]...)
		}
		in = in[n:]
	}
	if !asks {
		return nil
	}
	r.proxy.counts.requests.Add(1)
	return ignoreEOF(r.up.SendMsg(wire.Bytes(rest)))
}

// without returns a response without the resources that are late.
func without(m *wire.Message, resources protowire.Number, late []*lateFilter) *wire.Message {
	var out []byte
	for in := m.Data.Materialize(); len(in) > 0; {
		number, kind, n := protowire.ConsumeField(in)
		if n < 0 {
			return m // it was read before
		}
		isLate := false
		if number == resources && kind == protowire.BytesType && len(late) > 0 {
			isLate, late = late[0] != nil, late[1:]
		}
		if !isLate {
			out = append(out, in[:n]...)
		}
		in = in[n:]
	}
	return wire.Bytes(out)
}

// eachField returns a message in which each field of a number, which has bytes, is replaced.
func eachField(in []byte, number protowire.Number, by func([]byte) ([]byte, error)) ([]byte, error) {
	out := make([]byte, 0, len(in))
	for len(in) > 0 {
		found, kind, n := protowire.ConsumeField(in)
		if n < 0 {
			return nil, wire.ErrMalformed
		}
		if found != number || kind != protowire.BytesType {
			out, in = append(out, in[:n]...), in[n:]
			continue
		}
		_, _, head := protowire.ConsumeTag(in)
		value, _ := protowire.ConsumeBytes(in[head:])
		replaced, err := by(value)
		if err != nil {
			return nil, err
		}
		out, in = wire.AppendBytes(out, number, replaced), in[n:]
	}
	return out, nil
}
