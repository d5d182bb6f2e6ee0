package features

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local/sample"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// crowd is many endpoints of one service, each with an address of its own, which all answer.
type crowd struct {
	ports []string
}

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(sample.Echoed{Hostname: fmt.Sprint(r.Context().Value(http.LocalAddrContextKey))})
	})}
	return serveCrowd(t, n, server, func(l net.Listener) net.Listener { return l })
}

// serveCrowd has a server answer for all of a crowd, behind what dress makes of its listeners.
func serveCrowd(t *testing.T, n int, server *http.Server, dress func(net.Listener) net.Listener) *crowd {
	t.Helper()
	c := &crowd{}
	var served sync.WaitGroup
	for i := range n {
		l, err := net.Listen("tcp", c.address(i)+":0")
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, err)
		c.ports = append(c.ports, port)
		served.Go(func() { _ = server.Serve(dress(l)) })
	}
	t.Cleanup(func() {
		_ = server.Close()
		served.Wait()
	})
	return c
}

func (c *crowd) address(i int) string { return fmt.Sprintf("127.66.%d.%d", i/200, i%200+1) }

// entry is a ServiceEntry for endpoints from one to another, with what describe says of each.
func (c *crowd) entry(from, to int, describe func(i int) string) string {
	var b strings.Builder
	b.WriteString(
		"hosts: [crowd.test]\nports: [{number: 80, name: http, protocol: HTTP}]\nresolution: STATIC\nendpoints:\n",
	)
	for i := from; i < to; i++ {
		more := ""
		if describe != nil {
			more = describe(i)
		}
		fmt.Fprintf(&b, "- {address: %s, ports: {http: %s}%s}\n", c.address(i), c.ports[i], more)
	}
	return livemesh.File("crowd.yaml", livemesh.Object("ServiceEntry crowd", b.String()))
}

// TestEndpointCollectionsGrowAndShrinkWithoutFailures is a service whose endpoints are so many that
// Envoy gets them as collections: it grows and shrinks about the limit, its endpoints and its
// cluster change, streams end, and no request fails.
func TestEndpointCollectionsGrowAndShrinkWithoutFailures(t *testing.T) {
	c := newCrowd(t, 260)
	m := livemesh.Start(t, livemesh.File("client.yaml", livemesh.NewEcho("client", "v1"),
		livemesh.Service("client", "http:80:8080"))+c.entry(0, 150, nil))
	sent, removed := 0, 0
	members := func(operation string) int {
		return int(m.Metric("lateen_xds_resources_total", map[string]string{"type": "leds", "operation": operation}))
	}
	// step writes files and requires how many members are sent and removed for that, and that the
	// endpoints from one to another serve.
	step := func(files string, newly, less, from, to int) {
		t.Helper()
		if files != "" {
			m.Apply(files)
		}
		m.Settle()
		sent, removed = sent+newly, removed+less
		require.Equal(t, []int{sent, removed}, []int{members("sent"), members("removed")})
		require.Equal(t, c.addresses(from, to), hostsOf(m, "client-v1", "outbound|80||crowd.test"))
	}
	load := m.Client("client-v1").Load("http://crowd.test/")
	step("", 0, 0, 0, 150)
	step(c.entry(0, 230, nil), 230, 0, 0, 230)
	step(c.entry(1, 230, nil), 0, 1, 1, 230)
	step(c.entry(1, 240, nil), 10, 0, 1, 240)
	step(c.entry(100, 240, nil), 0, 99, 100, 240) // below the limit, and yet near
	step(c.entry(150, 240, nil), 0, 50, 150, 240) // few, but they change often
	step(c.entry(0, 240, nil), 150, 0, 0, 240)

	step(rule("crowd", "host: crowd.test\ntrafficPolicy:\n  connectionPool: {http: {maxRetries: 7}}\n"), 0, 0, 0, 240)
	step(c.entry(0, 241, nil), 241, 0, 0, 241)
	m.Cut()
	step("", 0, 0, 0, 241)
	step(c.entry(0, 242, nil), 242, 0, 0, 242)
	m.Cut()
	step(c.entry(3, 242, nil), 239, 0, 3, 242)
	step(c.entry(4, 242, nil), 0, 1, 4, 242)

	weigh := func(i int) string {
		return fmt.Sprintf(", weight: %d, labels: {version: v%d, security.istio.io/tlsMode: disabled}", 1+i%3, i%2)
	}
	step(c.entry(4, 242, weigh), 238, 0, 4, 242)
	load.Stop()
}

func (c *crowd) addresses(from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, c.address(i)+":"+c.ports[i])
	}
	slices.Sort(all)
	return all
}

// hostsOf are the addresses of the endpoints that the Envoy of a workload has of a cluster, sorted.
func hostsOf(m *livemesh.Mesh, workload, cluster string) []string {
	var all []string
	for line := range strings.Lines(m.Admin(workload, "/clusters")) {
		if rest, ok := strings.CutPrefix(line, cluster+"::127."); ok {
			address, _, _ := strings.Cut(rest, "::")
			all = append(all, "127."+address)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
