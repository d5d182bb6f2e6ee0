package wire

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// rig is the two servers of a comparison, each with as many clients.
type rig struct {
	streams int
	clients *process
	bare    *server
	lateen  *server
}

// server is a process that serves, and what it took with its first clients alone.
type server struct {
	*process
	few report
}

// few is how many clients come first, and grow what all share.
const few = 50

func newRig(t testing.TB, streams int, suffix string) *rig {
	t.Helper()
	r := &rig{streams: streams, clients: start(t, "clients")}
	r.bare, r.lateen = r.serve(t, "bare"+suffix), r.serve(t, "lateen"+suffix)
	return r
}

// serve starts a server, and has its clients connect.
func (r *rig) serve(t testing.TB, role string) *server {
	t.Helper()
	s := &server{process: start(t, role)}
	for _, n := range []int{few, r.streams} {
		r.clients.do(order{Open: n, Address: s.address, Secure: s.secure})
		all := s.do(order{Await: s.few.Streams + n, Push: 3}) // what the first pushes grow
		require.Equal(t, s.few.Streams+n, all.Streams)
		if n == few {
			s.few = s.calm()
		}
	}
	return s
}

// calm is what a server takes when nothing happens: the least of a few looks, as each collection
// halves stacks that have grown.
func (s *server) calm() report {
	least := s.do(order{Measure: true})
	for range 3 {
		if m := s.do(order{Measure: true}); m.Heap+m.Stacks < least.Heap+least.Stacks {
			least = m
		}
	}
	return least
}

// idle is what a stream takes while nothing happens.
type idle struct {
	heap, stacks, resident int64
	goroutines             float64
}

func (r *rig) idle(s *server) idle {
	n := int64(r.streams)
	m := s.calm()
	return idle{
		heap:       (m.Heap - s.few.Heap) / n,
		stacks:     (m.Stacks - s.few.Stacks) / n,
		resident:   (m.Resident - s.few.Resident) / n,
		goroutines: float64(m.Goroutines-s.few.Goroutines) / float64(n),
	}
}

// pushed is what a push to one stream takes, and its ACK.
type pushed struct {
	cpu       float64 // in nanoseconds
	allocated float64 // in bytes
	objects   float64
}

func (r *rig) push(s *server, times int) pushed {
	m := s.do(order{Push: times})
	n := float64(m.Streams * times)
	return pushed{
		cpu:       float64(m.CPU.Nanoseconds()) / n,
		allocated: float64(m.Allocated) / n,
		objects:   float64(m.Objects) / n,
	}
}

// What an idle stream may take of heap and stacks together, and how much of the heap a push to one
// proxy may allocate beyond what grpc-go allocates for the same bytes.
const (
	idlePlain  = 40 << 10
	idleSecure = 60 << 10
	pushBytes  = 200
)

func TestStreamStaysWithinItsMemory(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates memory of its own")
	}
	for _, c := range []struct {
		name, suffix string
		limit        int64
	}{{"plain", "", idlePlain}, {"TLS", "s", idleSecure}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 200, c.suffix)
			bare, lateen := r.idle(r.bare), r.idle(r.lateen)
			t.Logf("idle: bare %+v, Lateen %+v", bare, lateen)
			require.InDelta(t, 4, lateen.goroutines, 0.1, "three of grpc-go's, and one that reads")
			require.LessOrEqual(t, lateen.heap+lateen.stacks, c.limit)

			sent, own := r.push(r.bare, 20), r.push(r.lateen, 20)
			t.Logf("a push: bare %+v, Lateen %+v", sent, own)
			require.LessOrEqual(t, own.allocated-sent.allocated, float64(pushBytes))
		})
	}
}

// median is the middle one.
func median[T cmp.Ordered](of []T) T {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
