package livemesh

import (
	"net"
	"sync"
)

// cuttable is a listener whose connections can be cut.
type cuttable struct {
	net.Listener

	mu          sync.Mutex
	connections []net.Conn // also those that ended by themselves
}

// Accept implements net.Listener.
func (l *cuttable) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.connections = append(l.connections, c)
	}
	return c, err
}

// Cut ends all streams between proxies and the control plane, and waits until the proxies are back.
func (m *Mesh) Cut() {
	m.t.Helper()
	before := map[string]bool{}
	for _, c := range m.pipeline.Clients() {
		before[c.ConnectionID] = true
	}
	m.xds.mu.Lock()
	for _, c := range m.xds.connections {
		_ = c.Close()
	}
	m.xds.connections = nil
	m.xds.mu.Unlock()
	m.Await("streams of all proxies", func() bool {
		now := m.pipeline.Clients()
		for _, c := range now {
			if before[c.ConnectionID] {
				return false
			}
		}
		return len(now) >= len(before)
	})
	m.Settle()
}
