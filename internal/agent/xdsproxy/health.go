package xdsproxy

import (
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
)

// healthType is the type with which Istio's agent tells of the workload beside it.
const healthType = "type.googleapis.com/istio.v1.HealthInformation"

// health is the last that is known of the workload. Each stream to the control plane tells it when
// Envoy has asked for listeners, and again when it changes.
type health struct {
	mu      sync.Mutex
	known   bool
	healthy bool
	why     string
	changed chan struct{} // closed with the next change; nil before somebody waits
}

// TellHealth has the control plane know whether the workload beside the agent is healthy, and why
// it is not.
func (p *Proxy) TellHealth(healthy bool, why string) {
	h := &p.health
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known, h.healthy, h.why = true, healthy, valid(why)
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// maxWhy is how many bytes are told of why a workload is not healthy, or a filter is refused.
const maxWhy = 1 << 10

// valid returns what somebody else says, cut, as a string of protobuf may be. The control plane
// could not read a request with another one.
func valid(why string) string {
	why = strings.ToValidUTF8(why, "\uFFFD")
	for len(why) > maxWhy {
		_, size := utf8.DecodeLastRuneInString(why)
		why = why[:len(why)-size]
	}
	return why
}

// tell returns the request that tells it, nil while nothing is known, and what is closed with the
// next change.
func (h *health) tell(v *wire.Variant) (*wire.Message, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	if !h.known {
		return nil, h.changed
	}
	b := wire.AppendString(nil, v.RequestType, healthType)
	if !h.healthy {
		status := protowire.AppendTag(nil, 1, protowire.VarintType)
		status = protowire.AppendVarint(status, uint64(codes.Internal))
		b = wire.AppendBytes(b, v.Refusal, wire.AppendString(status, 2, h.why))
	}
	return wire.Bytes(b), h.changed
}
