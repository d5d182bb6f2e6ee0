package admin_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// fleet is a list of clients.
type fleet []serve.Client

func (f fleet) Clients() []serve.Client { return f }

var connectedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func node(t *testing.T, id string) *serve.Node {
	t.Helper()
	n, err := serve.ParseNode(&corev3.Node{Id: id, UserAgentName: "envoy"})
	require.NoError(t, err)
	return n
}

// reviews is a client with one resource of each type; its listener and cluster hold its own
// address.
func reviews(t *testing.T) serve.Client {
	t.Helper()
	state := resource.NewState(7)
	store := resource.NewStore()
	put := func(typ resource.Type, name string, own bool, m proto.Message) {
		body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		require.NoError(t, err)
		r := resource.New(name, body)
		if own {
			r = resource.NewWith(name, body, resource.Traits{Placeholders: true})
		}
		state = state.With(typ, store.Build(r))
	}
	put(resource.Cluster, "inbound", true, boundCluster(model.OwnPod))
	put(resource.Endpoint, "out", false, &endpointv3.ClusterLoadAssignment{ClusterName: "out"})
	put(resource.Listener, "in", true, listener(t, model.OwnPod))
	put(resource.Route, "80", false, &routev3.RouteConfiguration{Name: "80"})
	put(resource.Secret, "kubernetes://cert", false, &tlsv3.Secret{
		Name: "kubernetes://cert",
		Type: &tlsv3.Secret_GenericSecret{
			GenericSecret: &tlsv3.GenericSecret{
				Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "hush"}},
			},
		},
	})
	c := serve.Client{
		ConnectionID: "reviews-v1-0.default-1",
		Node:         node(t, "sidecar~127.0.0.2~reviews-v1-0.default~default.svc.cluster.local"),
		Address:      "127.0.0.1:5",
		ConnectedAt:  connectedAt,
		State:        state,
		Overlay:      resource.Overlay{Pod: "127.0.0.2"},
	}
	c.Node.Metadata.ClusterID, c.Node.Metadata.IstioVersion = "Kubernetes", "1.31.1"
	c.Types[resource.Cluster] = session.TypeStatus{
		Subscribed: true,
		Settled:    true,
		Sent:       "c2",
		Acked:      "c2",
		SentAt:     connectedAt,
		Generation: 7,
		Resources:  1,
		Bytes:      100,
	}
	c.Types[resource.Endpoint] = session.TypeStatus{
		Subscribed: true,
		Sent:       "e3",
		Acked:      "e1",
		SentAt:     connectedAt,
		Resources:  1,
		Bytes:      20,
	}
	c.Types[resource.Listener] = session.TypeStatus{
		Subscribed:  true,
		Sent:        "l4",
		Acked:       "l1",
		Nack:        "Error adding listener in: bad",
		Quarantined: []string{"in"},
		Bytes:       3,
	}
	c.Types[resource.Route] = session.TypeStatus{Subscribed: true}
	return c
}

// TestSyncedWithoutAResponse: after a restart of the control plane a proxy says what it has, and is
// sent nothing if that is all.
func TestSyncedWithoutAResponse(t *testing.T) {
	c := reviews(t)
	c.Types[resource.Route] = session.TypeStatus{Subscribed: true, Settled: true, Resources: 1}
	handler := admin.NewHandler(admin.Options{Fleet: fleet{c}, Mesh: admin.MeshOf(nil)})
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://localhost/debug/syncz", nil)
	r.RemoteAddr = "127.0.0.1:1"
	handler.ServeHTTP(w, r)
	var got []page.SyncStatus
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got), w.Body.String())
	require.Equal(t, page.Synced, got[0].Resources[resource.Route.URL()].State)
}

func boundCluster(address string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:               "inbound",
		UpstreamBindConfig: &corev3.BindConfig{SourceAddress: &corev3.SocketAddress{Address: address}},
	}
}

// listener has a filter of a type that this program does not know, as an EnvoyFilter may bring.
func listener(t *testing.T, address string) *listenerv3.Listener {
	t.Helper()
	return &listenerv3.Listener{
		Name: "in",
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 9080},
		}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "theirs",
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: &anypb.Any{
				TypeUrl: "type.googleapis.com/their.own.Filter",
				Value:   []byte{8, 1},
			}},
		}}}},
	}
}

func handler(clients ...serve.Client) http.Handler {
	m := observe.New(observe.Build{Version: "1.2.3", Start: connectedAt, Now: func() time.Time { return connectedAt }})
	return admin.NewHandler(admin.Options{
		Version: "1.2.3", Gatherer: m.Registry, Fleet: fleet(clients),
		Mesh: admin.MeshOf(nil), Ready: func() error { return nil },
	})
}

func get(h http.Handler, path string) (code int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(http.MethodGet, path))
	return w.Code, w.Body.String()
}

func getJSON(t *testing.T, h http.Handler, path string, into any) {
	t.Helper()
	code, body := get(h, path)
	require.Equal(t, http.StatusOK, code, body)
	require.NoError(t, json.Unmarshal([]byte(body), into))
}

func TestSynczShowsEachProxy(t *testing.T) {
	var got []page.SyncStatus
	getJSON(t, handler(reviews(t)), "/debug/syncz", &got)
	want := []page.SyncStatus{{
		ClusterID:     "Kubernetes",
		ProxyID:       "reviews-v1-0.default",
		ProxyType:     "sidecar",
		ProxyVersion:  "1.31.1",
		IstioVersion:  "1.31.1",
		ClusterSent:   "c2",
		ClusterAcked:  "c2",
		ListenerSent:  "l4",
		ListenerAcked: "l1",
		EndpointSent:  "e3",
		EndpointAcked: "e1",
		ConnectionID:  "reviews-v1-0.default-1",
		Namespace:     "default",
		Protocol:      "delta",
		MutualTLS:     page.NoMutualTLS,
		ConnectedAt:   connectedAt,
		ConfigBytes:   123,
		Resources: map[string]page.TypeStatus{
			resource.Cluster.URL(): {
				Sent:       "c2",
				Acked:      "c2",
				SentTime:   &connectedAt,
				Type:       "cds",
				State:      page.Synced,
				Resources:  1,
				Bytes:      100,
				Generation: 7,
			},
			resource.Endpoint.URL(): {
				Sent:      "e3",
				Acked:     "e1",
				SentTime:  &connectedAt,
				Type:      "eds",
				State:     page.Stale,
				Resources: 1,
				Bytes:     20,
			},
			resource.Listener.URL(): {
				Sent:        "l4",
				Acked:       "l1",
				LastError:   "Error adding listener in: bad",
				Type:        "lds",
				State:       page.Nack,
				Bytes:       3,
				Quarantined: []string{"in"},
			},
			resource.Route.URL(): {Type: "rds", State: page.NotSent},
		},
	}}
	require.Empty(t, cmp.Diff(want, got))
}

// A proxy from which something is withheld, because of what it refused, is not where its class is.
func TestSynczTellsWhatIsWithheld(t *testing.T) {
	c := reviews(t)
	c.Types[resource.Route] = session.TypeStatus{
		Subscribed: true,
		Settled:    true,
		Sent:       "r5",
		Acked:      "r5",
		Withheld:   []string{"80"},
	}
	var got []page.SyncStatus
	getJSON(t, handler(c), "/debug/syncz", &got)
	require.Equal(t, []string{"80"}, got[0].Resources[resource.Route.URL()].Withheld)
	require.Equal(t, page.Stale, got[0].Resources[resource.Route.URL()].State)
}

// The names of the fields are an interface too: istioctl and dashboards read them.
func TestSynczHasIstiosFields(t *testing.T) {
	var got []map[string]any
	getJSON(t, handler(reviews(t)), "/debug/syncz", &got)
	for _, field := range []string{
		"cluster_id", "proxy", "proxy_type", "proxy_version", "istio_version", "cluster_sent", "listener_acked",
	} {
		require.Contains(t, got[0], field)
	}
	cds := got[0]["resources"].(map[string]any)[resource.Cluster.URL()].(map[string]any)
	require.Equal(t, "c2", cds["sent"])
	require.Contains(t, cds, "sentTime")
}

func TestSynczOfOneNamespace(t *testing.T) {
	var got []page.SyncStatus
	getJSON(t, handler(reviews(t)), "/debug/syncz?namespace=other", &got)
	require.Equal(t, []page.SyncStatus{}, got)
	getJSON(t, handler(reviews(t)), "/debug/syncz?namespace=default", &got)
	require.Len(t, got, 1)
}

func TestConfigDumpIsWhatTheProxyShouldHave(t *testing.T) {
	c := reviews(t)
	for _, id := range []string{"reviews-v1-0.default", c.Node.ID} {
		code, body := get(handler(c), "/debug/config_dump?proxyID="+id)
		require.Equal(t, http.StatusOK, code, body)
		require.Contains(t, body, `"@type": "type.googleapis.com/their.own.Filter"`)
		require.NotContains(t, body, model.OwnPod)
		var dump adminv3.ConfigDump
		decode := protojson.UnmarshalOptions{DiscardUnknown: true}
		require.NoError(t, decode.Unmarshal(without(t, body, "filterChains"), &dump))
		require.Len(t, dump.GetConfigs(), 5)
		require.Contains(t, body, "kubernetes://cert")
		require.NotContains(t, body, "hush")

		var clusters adminv3.ClustersConfigDump
		require.NoError(t, dump.GetConfigs()[0].UnmarshalTo(&clusters))
		want, err := anypb.New(boundCluster("127.0.0.2"))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(&adminv3.ClustersConfigDump{
			DynamicActiveClusters: []*adminv3.ClustersConfigDump_DynamicCluster{{
				VersionInfo: c.Overlay.Version(c.State.Set(resource.Cluster).Get("inbound")).String(), Cluster: want,
			}},
		}, &clusters, protocmp.Transform()))

		var listeners adminv3.ListenersConfigDump
		require.NoError(t, dump.GetConfigs()[2].UnmarshalTo(&listeners))
		require.Equal(t, "in", listeners.GetDynamicListeners()[0].GetName())
		var routes adminv3.RoutesConfigDump
		require.NoError(t, dump.GetConfigs()[3].UnmarshalTo(&routes))
		require.Len(t, routes.GetDynamicRouteConfigs(), 1)
	}
}

// without removes a key from JSON at any depth.
func without(t *testing.T, body, key string) []byte {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(body), &v))
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, key)
			for _, e := range v {
				strip(e)
			}
		case []any:
			for _, e := range v {
				strip(e)
			}
		}
	}
	strip(v)
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

func TestConfigDumpOfTheLatestConnection(t *testing.T) {
	old, latest := reviews(t), reviews(t)
	old.State = resource.NewState(1)
	latest.ConnectedAt = connectedAt.Add(time.Second)
	_, body := get(handler(old, latest), "/debug/config_dump?proxyID=reviews-v1-0.default")
	require.Contains(t, body, "dynamicActiveClusters")
	_, body = get(handler(latest, old), "/debug/config_dump?proxyID=reviews-v1-0.default")
	require.Contains(t, body, "dynamicActiveClusters")
}

func TestConfigDumpOfNobody(t *testing.T) {
	code, body := get(handler(reviews(t)), "/debug/config_dump?proxyID=ratings.default")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, body, "Proxy not connected to this Pilot instance. It may be connected to another instance.")
	require.Contains(t, body, `"ratings.default" is not connected; connected are reviews-v1-0.default`)

	code, body = get(handler(), "/debug/config_dump")
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, body, "want ?proxyID=pod.namespace\nno proxy is connected")
}

func TestConnectionsShowWatchesAndIdentity(t *testing.T) {
	var got struct {
		TotalClients int `json:"totalClients"`
		Clients      []struct {
			ConnectionID string              `json:"connectionId"`
			Watches      map[string][]string `json:"watches"`
			Identity     string              `json:"identity"`
		} `json:"clients"`
	}
	getJSON(t, handler(reviews(t)), "/debug/connections", &got)
	require.Equal(t, 1, got.TotalClients)
	require.Equal(t, "reviews-v1-0.default-1", got.Clients[0].ConnectionID)
	require.Equal(t, []string{"inbound"}, got.Clients[0].Watches[resource.Cluster.URL()])
	require.Equal(t, "anonymous", got.Clients[0].Identity)
}

func TestProblemsAreListed(t *testing.T) {
	p := source.Problem{
		Severity: source.Error,
		Object:   source.Key{Kind: kinds.VirtualService, Namespace: "default", Name: "reviews"},
		Origin:   "reviews.yaml:12",
		Path:     "spec.http[0].route[0].destination.subset",
		Value:    "v9",
		Message:  "subset is not defined",
		Want:     "v1",
	}
	h := admin.NewHandler(admin.Options{
		Fleet: fleet{},
		Mesh:  admin.MeshOf(nil, p),
	})
	var got []map[string]string
	getJSON(t, h, "/debug/problems", &got)
	require.Equal(t, []map[string]string{{
		"severity":  "error",
		"kind":      "VirtualService",
		"namespace": "default",
		"name":      "reviews",
		"origin":    "reviews.yaml:12",
		"path":      "spec.http[0].route[0].destination.subset",
		"value":     "v9",
		"message":   "subset is not defined",
		"want":      "v1",
		"text":      p.String(),
	}}, got)
	_, body := get(handler(), "/debug/problems")
	require.JSONEq(t, "[]", body)
}

func TestReadyFollowsTheFirstState(t *testing.T) {
	var missing error
	h := admin.NewHandler(admin.Options{
		Fleet: fleet{}, Ready: func() error { return missing }, Mesh: admin.MeshOf(nil),
	})
	code, body := get(h, "/ready")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ready\n", body)
	missing = errors.New("the first state is not there yet")
	code, body = get(h, "/ready")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "not ready: the first state is not there yet\n", body)
}

func TestVersionMetricsAndListOfPages(t *testing.T) {
	h := handler()
	_, body := get(h, "/version")
	require.Equal(t, "1.2.3", body, "istioctl shows it as it is")
	_, body = get(h, "/metrics")
	require.Contains(t, body, `istio_build{component="pilot",tag="1.2.3"} 1`)
	var paths []string
	getJSON(t, h, "/debug/list", &paths)
	require.Contains(t, paths, "/debug/syncz")
	for _, p := range paths {
		code, _ := get(h, p)
		require.NotEqual(t, http.StatusNotFound, code, p)
	}
	code, _ := get(h, "/debug/nothing")
	require.Equal(t, http.StatusNotFound, code)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(http.MethodPost, "/debug/syncz"))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

// request comes from a loopback address.
func request(method, path string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:40000", "localhost:15014"
	return r
}

func TestOthersSeeMetricsOnly(t *testing.T) {
	h := admin.NewHandler(admin.Options{
		Version:  "v",
		Gatherer: prometheus.NewRegistry(),
		Mesh:     admin.MeshOf(nil),
		Ready:    func() error { return nil },
	})
	for path, code := range map[string]int{
		"/metrics":           200,
		"/ready":             200,
		"/version":           200,
		"/debug/problems":    403,
		"/debug/config_dump": 403,
	} {
		for _, from := range []string{"10.0.0.7:40000", "[2001:db8::1]:40000", "nonsense"} {
			r := request(http.MethodGet, path)
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, code, w.Code, path+" "+from)
		}
	}
	for _, from := range []string{"127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"} {
		r := request(http.MethodGet, "/debug/problems")
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, from)
	}
}
