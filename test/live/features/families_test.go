package features

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
)

// TestDualStackEndpointIsReachedAtTheAddressThatAnswers calls endpoints that answer at one of their
// two addresses alone.
func TestDualStackEndpointIsReachedAtTheAddressThatAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoy")
	}
	const unused = time.Hour
	r := adscript.Start(t, adscript.Options{})
	r.AwaitOpen(adscript.Clusters)
	r.Send(adscript.Push("1", adscript.EDSCluster("c", "", unused)))
	r.AwaitSubscribe(adscript.Endpoints, "c")
	r.Send(adscript.Push("1", adscript.Assignment("c")))
	r.AwaitOpen(adscript.Listeners)
	r.Send(adscript.Push("1", adscript.HTTPListener("l", "rc", unused)))
	r.AwaitSubscribe(adscript.Routes, "rc")
	r.AwaitAck(r.Send(adscript.Push("1", adscript.RouteTable("rc", adscript.VirtualHost("a", "c", "*")))))
	r.Until("ready", r.Ready)

	for i, c := range []struct{ name, first, answers string }{
		{"IPv6 where IPv4 is closed", "127.77.0.1", "::1"},
		{"IPv4 where IPv6 is closed", "::1", "127.77.0.2"},
	} {
		port := answerAt(t, c.answers, c.name)
		e, err := endpoint.Endpoint(endpoint.Input{Address: c.first, Port: port, Other: c.answers})
		require.NoError(t, err)
		a := adscript.Assignment("c")
		a.Endpoints = []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{e}}}
		r.AwaitAck(r.Send(adscript.Push("of "+string(rune('a'+i)), a)))
		r.Until(c.name, func() bool {
			return r.Get("l", "a.test", "/") == adscript.Answer{Status: http.StatusOK, Body: c.name}
		})
	}
}

// answerAt answers requests to an address with a text, and tells the port.
func answerAt(t *testing.T, address, text string) uint16 {
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	s := &httptest.Server{Listener: l, Config: &http.Server{
		ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(text))
		}),
	}}
	s.Start()
	t.Cleanup(s.Close)
	return uint16(l.Addr().(*net.TCPAddr).Port)
}
