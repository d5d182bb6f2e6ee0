package wire

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// resourceName is the one resource of each type.
const resourceName = "outbound|9080||reviews.default.svc.cluster.local"

// payloadSize is what one push sends to one proxy: the step of an endpoint, as the bare server's
// measure says.
const payloadSize = 438

// assignment is a resource of which a response has payloadSize bytes, or so many more, different
// from one generation to the next.
func assignment(generation uint64, more int) *resource.Resource {
	body := func(padding int) []byte {
		text := make([]byte, padding)
		for i := range text {
			text[i] = 'a' + byte((generation+uint64(i))%26)
		}
		b, err := proto.Marshal(&endpointv3.ClusterLoadAssignment{
			ClusterName: resourceName,
			Endpoints:   []*endpointv3.LocalityLbEndpoints{{Locality: &corev3.Locality{Region: string(text)}}},
		})
		if err != nil {
			panic(err)
		}
		return b
	}
	r := resource.New(resourceName, body(1))
	return resource.New(resourceName, body(1+payloadSize-len(frameOf(r))-3+more)) // lengths take a byte more each
}

// frameOf is the response with one resource.
func frameOf(r *resource.Resource) []byte {
	f := fanout.Encode(session.Delta, session.Response{
		Type:    resource.Endpoint,
		Nonce:   "e1a",
		Version: r.Version().String(),
		Upserts: []*resource.Resource{r},
	}, resource.Overlay{})
	var b []byte
	for _, p := range f.Parts {
		b = append(b, p...)
	}
	return b
}

func payload(generation uint64) []byte { return frameOf(assignment(generation, 0)) }

// lateen is serve and fanout over one class, whose endpoints change from one generation to the
// next.
type lateen struct {
	hub     *fanout.Hub
	server  *serve.Server
	metrics *observe.Metrics
	store   *resource.Store
	more    int // bytes that a push has beyond payloadSize

	mu    sync.Mutex
	state resource.State
}

const class fanout.ClassID = 1

func newLateen(o serve.Options) *lateen {
	s := &lateen{store: resource.NewStore(), metrics: observe.New(observe.Build{Start: time.Now(), Now: time.Now})}
	s.hub = fanout.NewHub(fanout.Options{Metrics: s.metrics, Now: time.Now})
	s.state = resource.NewState(1)
	for t := range resource.NumTypes {
		s.state = s.state.With(t, s.store.Build(resource.New(resourceName, []byte(resourceName))))
	}
	o.Registrar, o.Pushes, o.Differ, o.Metrics, o.Now = s, s.hub, resource.NewDiffer(64), s.metrics, time.Now
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Limits.StreamsPerSecond = cmp.Or(o.Limits.StreamsPerSecond, 1e6)
	s.server = serve.New(o)
	return s
}

func (s *lateen) serve(l net.Listener) error { return s.server.Serve(l) }

func (s *lateen) connected() int {
	ready := 0
	for _, c := range s.server.Clients() {
		settled := true
		for _, t := range c.Types {
			settled = settled && t.Subscribed && t.Settled
		}
		if settled {
			ready++
		}
	}
	return ready
}

// Connect is the Registrar's: all proxies are of one class.
func (s *lateen) Connect(context.Context, *serve.Node, serve.Identity) (*fanout.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hub.Register(class, s.state, resource.Overlay{Pod: "10.0.0.7", Trusted: true}), nil
}

// publish makes the next generation.
func (s *lateen) publish() resource.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.state.At(s.state.Generation() + 1)
	next = next.With(resource.Endpoint, s.store.Build(assignment(next.Generation(), s.more)))
	s.state = next
	s.hub.Publish(fanout.Generation{
		Number:   next.Generation(),
		Cause:    "test",
		Observed: time.Now(),
		Changed:  []fanout.ClassChange{{Class: class, State: next}},
	})
	return next
}

// push brings all proxies to the next generation and waits until all have answered.
func (s *lateen) push() {
	s.publish()
	<-s.hub.Finished()
}
