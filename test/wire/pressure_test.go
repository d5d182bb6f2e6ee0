package wire

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// mesh is a server in this process and clients that may misbehave.
type mesh struct {
	t       *testing.T
	server  *lateen
	address string

	mu      sync.Mutex
	written map[string]counted // by the client's address
}

func newMesh(t *testing.T, limits serve.Limits) *mesh {
	m := &mesh{t: t, server: newLateen(serve.Options{Limits: limits}), written: map[string]counted{}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m.address = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- m.server.serve(counting{l, m}) }()
	t.Cleanup(func() {
		m.server.server.Stop(context.Background())
		require.NoError(t, <-served)
	})
	return m
}

// counting is a listener whose connections count what is written.
type counting struct {
	net.Listener
	mesh *mesh
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	all := counted{conn, &atomic.Int64{}, c.mesh}
	c.mesh.mu.Lock()
	defer c.mesh.mu.Unlock()
	c.mesh.written[conn.RemoteAddr().String()] = all
	return all, nil
}

// counted is one of them.
type counted struct {
	net.Conn
	n    *atomic.Int64 // bytes that the kernel took
	mesh *mesh
}

// SyscallConn gives the server the socket, for its options.
func (c counted) SyscallConn() (syscall.RawConn, error) { return c.Conn.(syscall.Conn).SyscallConn() }

// Close forgets the count.
func (c counted) Close() error {
	c.mesh.mu.Lock()
	delete(c.mesh.written, c.RemoteAddr().String())
	c.mesh.mu.Unlock()
	return c.Conn.Close()
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// serverEnd is the server's end of a client's connection.
func (m *mesh) serverEnd(c *client) counted {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written[c.conn.LocalAddr().String()]
}

// connect is a client that has asked for everything and reads nothing yet.
func (m *mesh) connect(i int) *client {
	c, err := connect(m.address, false, 0)
	require.NoError(m.t, err)
	m.t.Cleanup(func() { _ = c.conn.Close() })
	require.NoError(m.t, c.subscribe(i))
	return c
}

// healthy are clients that read and answer at once.
func (m *mesh) healthy(n int) []*client {
	all := make([]*client, n)
	for i := range all {
		all[i] = m.connect(i)
		go func() { _ = all[i].run(nil) }()
	}
	m.eventually("all have everything", func() bool { return m.server.connected() == n })
	return all
}

// push makes a generation, and waits until the clients have answered it.
func (m *mesh) push(clients []*client) {
	before := make([]int64, len(clients))
	for i, c := range clients {
		before[i] = c.acked.Load()
	}
	m.server.publish()
	m.eventually("the healthy have it", func() bool {
		for i, c := range clients {
			if c.acked.Load() == before[i] {
				return false
			}
		}
		return true
	})
}

func (m *mesh) eventually(what string, ok func() bool) {
	m.t.Helper()
	require.Eventually(m.t, ok, 3*time.Minute, time.Millisecond, what) // a busy machine takes long for anything
}

// status is what the server knows of a client, by its number.
func (m *mesh) status(i int) (serve.Client, bool) {
	for _, c := range m.server.server.Clients() {
		if c.Node.ID == node(i).GetId() {
			return c, true
		}
	}
	return serve.Client{}, false
}

// value is the sum of a counter's series.
func (m *mesh) value(name string) int {
	families, err := m.server.metrics.Registry.Gather()
	require.NoError(m.t, err)
	total := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, s := range f.GetMetric() {
				total += s.GetCounter().GetValue()
			}
		}
	}
	return int(total)
}

// queued is the most that may wait in this process for one client that takes nothing.
const queued = 64 << 10

// A client that does not read is sent what its class came to, up to the bound of responses without
// an ACK; then the newest state waits for it, as a pointer. Others get every generation.
func TestClientThatDoesNotReadIsSentABoundedAmount(t *testing.T) {
	const others, generations = 10, 300
	m := newMesh(t, serve.Limits{})
	healthy := m.healthy(others)
	sick := m.connect(others)
	m.eventually("it is connected", func() bool { _, ok := m.status(others); return ok })
	for range generations {
		m.push(healthy)
	}
	var s serve.Client
	m.eventually("the newest state is what it waits for", func() bool {
		var ok bool
		s, ok = m.status(others)
		return ok && s.State.Generation() == generations+1
	})
	require.LessOrEqual(t, m.serverEnd(sick).n.Load(), int64(queued), "what is under way")
	require.False(t, s.Types[resource.Endpoint].Settled)

	go func() { _ = sick.run(nil) }()
	m.eventually("it has caught up", func() bool { return m.server.connected() == others+1 })
	require.Less(t, sick.acked.Load(), int64(60), "most generations it was never sent")
}

// However large the responses are: in this process wait 16 KiB and one response, in the kernel 16
// KiB and the segment that was begun.
func TestClientThatDoesNotReadHoldsUpOneLargeResponse(t *testing.T) {
	const others, generations, size, segment = 10, 40, 40 << 10, 64 << 10
	m := newMesh(t, serve.Limits{})
	m.server.more = size
	healthy := m.healthy(others)
	sick := m.connect(others)
	m.eventually("it is connected", func() bool { _, ok := m.status(others); return ok })
	held := m.server.metrics.XDS.Queued.Load
	most := 0
	for range generations {
		m.push(healthy)
		m.eventually("the healthy have taken it", func() bool {
			return m.server.connected() >= others && held() <= queued
		})
		most = max(most, int(held()))
	}
	require.Greater(t, most, 16<<10, "the client's windows and the kernel are full")
	require.LessOrEqual(t, most, 16<<10+size+4<<10)
	require.LessOrEqual(t, unsent(t, m.serverEnd(sick).Conn), 16<<10+segment)
	t.Logf("waiting in this process: %d bytes; in the kernel: %d", most, unsent(t, m.serverEnd(sick).Conn))

	go func() { _ = sick.run(nil) }()
	m.eventually("it has caught up", func() bool { return m.server.connected() == others+1 && held() == 0 })
	require.Less(t, sick.acked.Load(), int64(generations), "most generations it was never sent")
}

// A client that answers late is the same, but that the kernel holds nothing.
func TestClientThatAnswersLateGetsTheNewestState(t *testing.T) {
	const others, generations = 10, 200
	m := newMesh(t, serve.Limits{})
	healthy := m.healthy(others)
	late := m.connect(others)
	free := make(chan struct{})
	var received atomic.Int64
	go func() {
		_ = late.run(func([]byte) {
			if received.Add(1) > int64(resource.NumTypes)+3 {
				<-free // from here on it neither reads nor answers
			}
		})
	}()
	m.eventually("it is connected", func() bool { _, ok := m.status(others); return ok })
	for range generations {
		m.push(healthy)
	}
	close(free)
	m.eventually("it has caught up", func() bool { return m.server.connected() == others+1 })
	require.Less(t, received.Load(), int64(60), "it was spared most generations")
}

// A client that asks without end has its answers, and its pushes between them. Others have theirs.
func TestFloodOfRequestsDelaysNoOtherClient(t *testing.T) {
	const others, generations, depth = 10, 100, 50
	m := newMesh(t, serve.Limits{})
	healthy := m.healthy(others)
	flooder := m.connect(others)
	again := &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl:                resource.Endpoint.URL(),
		ResourceNamesSubscribe: []string{resourceName},
	}
	for range depth {
		require.NoError(t, flooder.request(again))
	}
	var answers atomic.Int64
	go func() {
		_ = flooder.run(func([]byte) {
			answers.Add(1)
			_ = flooder.request(again)
		})
	}()
	for range generations {
		m.push(healthy)
	}
	m.eventually("the flooder is served", func() bool { return answers.Load() > 10*depth })
	m.eventually("and is brought to the newest state", func() bool {
		s, ok := m.status(others)
		return ok && s.State.Generation() == generations+1
	})
}

// Streams that begin at once wait for their admission; none is refused. Each gets the state of
// then.
func TestStreamsThatBeginAtOnceAreAllAdmitted(t *testing.T) {
	const clients, rate = 600, 300
	m := newMesh(t, serve.Limits{StreamsPerSecond: rate})
	var ended atomic.Int64
	for i := range clients {
		c := m.connect(i)
		go func() {
			if c.run(nil) != nil {
				ended.Add(1)
			}
		}()
	}
	for range 10 {
		m.server.publish()
	}
	m.eventually("each is admitted", func() bool { return m.server.connected() == clients })
	require.Zero(t, m.value("lateen_xds_refused_streams_total"))
	require.Zero(t, ended.Load())
	m.eventually("each has the newest", func() bool {
		return !slices.ContainsFunc(m.server.server.Clients(), func(c serve.Client) bool {
			return c.State.Generation() != 11
		})
	})
}

// A storm of generations costs each client as many pushes as it can take, and leaves it with the
// newest.
func TestManyGenerationsLeaveEachClientWithTheNewest(t *testing.T) {
	const clients, generations = 20, 10_000
	m := newMesh(t, serve.Limits{})
	all := m.healthy(clients)
	for range generations {
		m.server.publish()
	}
	m.eventually("all have the newest", func() bool {
		return m.server.connected() == clients && m.server.hub.Settle(t.Context(), generations+1) == nil
	})
	for _, c := range m.server.server.Clients() {
		require.EqualValues(t, generations+1, c.State.Generation())
	}
	coalesced := m.value("lateen_coalesced_pushes_total")
	sent := int64(0)
	for _, c := range all {
		sent += c.acked.Load()
	}
	require.Positive(t, coalesced)
	require.LessOrEqual(t, sent, int64(clients*(generations+int(resource.NumTypes)))-int64(coalesced),
		"what was coalesced was not sent")
}
