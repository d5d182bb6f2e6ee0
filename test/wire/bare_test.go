package wire

import (
	"net"
	"sync"
	"sync/atomic"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// bare is the server to compare with: grpc-go with its own means to save memory, which sends the
// same bytes to each stream and looks for the nonce in each ACK, and knows nothing else.
type bare struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	grpc  *grpc.Server
	bytes []byte

	mu      sync.Mutex
	streams []grpc.ServerStream
	acks    atomic.Int64
	want    atomic.Int64
	done    chan struct{}
}

func newBare(o ...grpc.ServerOption) *bare {
	s := &bare{bytes: payload(1), done: make(chan struct{}, 1)}
	s.grpc = grpc.NewServer(append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(rawCodec{}), grpc.ReadBufferSize(1 << 10), grpc.WriteBufferSize(4 << 10),
		grpc.StaticStreamWindowSize(65535), grpc.StaticConnWindowSize(65535),
	}, o...)...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s.grpc, s)
	return s
}

func (s *bare) serve(l net.Listener) error { return s.grpc.Serve(l) }

func (s *bare) connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// push sends to all streams and waits until all have answered.
func (s *bare) push() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks.Store(0)
	s.want.Store(int64(len(s.streams)))
	message := ready(s.bytes)
	for _, st := range s.streams {
		_ = st.SendMsg(message) // a client that has left is missed below
	}
	<-s.done
}

// DeltaAggregatedResources reads requests until the client leaves.
func (s *bare) DeltaAggregatedResources(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	known := false
	for {
		var a ack
		if err := g.RecvMsg(&a); err != nil {
			return nil //nolint:nilerr // the client has left
		}
		if !known {
			known = true
			s.mu.Lock()
			s.streams = append(s.streams, g)
			s.mu.Unlock()
		}
		if a.nonce && s.acks.Add(1) == s.want.Load() {
			s.done <- struct{}{}
		}
	}
}

// ready is a message that is encoded, ack what is read of one.
type (
	ready []byte
	ack   struct{ nonce bool }
)

type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(ready); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return encoding.GetCodecV2("proto").Marshal(v)
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	a, ok := v.(*ack)
	if !ok {
		return encoding.GetCodecV2("proto").Unmarshal(data, v)
	}
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	const nonce = 6
	for b := buffer.ReadOnlyData(); len(b) > 0; {
		field, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		a.nonce = a.nonce || field == nonce
		b = b[n:]
	}
	return nil
}
