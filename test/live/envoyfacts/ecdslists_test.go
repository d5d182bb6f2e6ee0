package envoyfacts

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// filtersBehindAnAnswer is why an authorizer may stand in a list, anywhere: what stands behind it
// has its turn when the answer has come.
func filtersBehindAnAnswer(t *testing.T, r *adscript.Run) {
	start(r)
	r.AwaitAck(r.Send(adscript.Push("1", adscript.StaticCluster("authorizer", backend(t, "yes")))))
	openFiltered(r, adscript.FilterList("f", adscript.Ask("authorizer"), adscript.DenyPath("/no")))
	require.Equal(t, refused, r.Get("l", "a.test", "/no"))
	require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
	r.AwaitAck(r.Send(adscript.Push("2", adscript.FilterList("f",
		adscript.Ask("authorizer"), adscript.DenyPath("/other"),
		adscript.Ask("authorizer"), adscript.DenyPath("/no")))))
	require.Equal(t, refused, r.Get("l", "a.test", "/other"))
	require.Equal(t, refused, r.Get("l", "a.test", "/no"))
	require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
	r.AwaitAck(r.Send(adscript.Push("2",
		adscript.FilterList("f", adscript.DenyPath("/no"), adscript.Ask("authorizer")))))
	require.Equal(t, refused, r.Get("l", "a.test", "/no"))
	require.Equal(t, ok("a"), r.Get("l", "a.test", "/"))
	r.AwaitAck(r.Send(adscript.Push("3", adscript.FilterList("f", adscript.Ask("nobody")))))
	require.Equal(t, http.StatusForbidden, r.Get("l", "a.test", "/").Status, "a cluster that is not there refuses")
}

// requestThatWaits edits a list while a request waits in it, such that the part before the edit of
// the one list and the part behind it of the other would let through what both refuse.
func requestThatWaits(t *testing.T, r *adscript.Run) {
	var asked atomic.Int32
	answer := make(chan struct{})
	authorizer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		select {
		case <-answer:
		case <-req.Context().Done():
		}
	}))
	t.Cleanup(authorizer.Close)
	start(r)
	r.AwaitAck(r.Send(adscript.Push("1", adscript.StaticCluster("authorizer", authorizer.Listener.Addr().String()))))
	waitForFilter(r, never)
	r.AwaitAck(r.Send(adscript.Push("1",
		adscript.FilterList("f", adscript.Ask("authorizer"), adscript.DenyPath("/no")))))
	r.Until("it listens", func() bool { return r.Address("l").IsValid() })
	waits, another := r.Later("l", "a.test", "/no"), r.Later("l", "a.test", "/")
	r.Until("both wait", func() bool { return asked.Load() == 2 })
	r.AwaitAck(r.Send(adscript.Push("2", adscript.FilterList("f", adscript.DenyAll()))))
	require.Equal(t, refused, r.Get("l", "a.test", "/"))
	r.AwaitAck(r.Send(adscript.Push("3",
		adscript.FilterList("f", adscript.DenyPath("/no"), adscript.Ask("authorizer")))))
	close(answer)
	require.Equal(t, refused, <-waits, "the list that it met refuses it behind the authorizer")
	require.Equal(t, ok("a"), <-another)
}

// editOfASecureListener edits the filter of a listener that ends TLS, and finds its chain by the
// original destination.
func editOfASecureListener(t *testing.T, r *adscript.Run) {
	start(r)
	l := adscript.TLSListener(filtered("l", never), "s", never)
	l.UseOriginalDst = wrapperspb.Bool(true)
	config, err := anypb.New(&originaldstv3.OriginalDst{})
	require.NoError(t, err)
	l.ListenerFilters = []*listenerv3.ListenerFilter{{
		Name:       "envoy.filters.listener.original_dst",
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: config},
	}}
	secret, serial := issue(t, "s")
	r.AwaitAck(r.Send(adscript.Push("1", l),
		adscript.Push("1", adscript.FilterList("f", adscript.DenyPath("/no"))), adscript.Push("1", secret),
		adscript.Push("1", adscript.RouteTable("rc", adscript.AnsweringHost("a", "a", "*")))))
	r.Until("it is open", func() bool { return shakeHands(r, "l") == serial })

	transport := &http.Transport{
		MaxConnsPerHost: 1,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // whom it asks is not tested
	}
	defer transport.CloseIdleConnections()
	request := func() adscript.Answer {
		resp, err := (&http.Client{Transport: transport}).Get("https://" + r.Address("l").String())
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return adscript.Answer{Status: resp.StatusCode, Body: string(body)}
	}
	require.Equal(t, ok("a"), request())
	accepted := r.Stat("http.l.downstream_cx_total")
	requireEditsInForce(t, r, request)
	require.Equal(t, accepted, r.Stat("http.l.downstream_cx_total"), "all came on one connection")
}
