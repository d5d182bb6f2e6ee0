package proxystats

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func labels(of map[string]string) func(string) string {
	return func(key string) string { return of[key] }
}

func TestTheWorkloadOfAPodIsItsController(t *testing.T) {
	for name, c := range map[string]struct {
		pod    string
		labels map[string]string
		want   string
	}{
		"a Deployment":  {"reviews-v1-5d4f-x7k2p", map[string]string{"pod-template-hash": "5d4f"}, "reviews-v1"},
		"a StatefulSet": {"db-12", map[string]string{"controller-revision-hash": "db-77"}, "db"},
		"a DaemonSet":   {"node-agent-xkcd1", map[string]string{"controller-revision-hash": "77"}, "node-agent"},
		"a Job":         {"load-abcde", map[string]string{"batch.kubernetes.io/job-name": "load"}, "load"},
		"a CronJob":     {"load-29384756-abcde", map[string]string{"job-name": "load-29384756"}, "load"},
		"nobody":        {"alone-1", nil, "alone-1"},
	} {
		got := Of(Pod{Namespace: "shop", Name: c.pod, Label: labels(c.labels)})
		require.Equal(t, c.want, got.Name, name)
		require.Equal(t, "shop", got.Namespace)
	}
}

func TestCanonicalServiceIsIstios(t *testing.T) {
	of := func(l map[string]string) Workload { return Of(Pod{Name: "p", Owner: "w", Label: labels(l)}) }
	require.Equal(t, "w latest", of(nil).CanonicalName+" "+of(nil).CanonicalRevision)
	l := map[string]string{"app": "a", "version": "v1"}
	require.Equal(t, "a v1", of(l).CanonicalName+" "+of(l).CanonicalRevision)
	l["app.kubernetes.io/name"], l["app.kubernetes.io/version"] = "b", "v2"
	require.Equal(t, "b v2", of(l).CanonicalName+" "+of(l).CanonicalRevision)
	l["service.istio.io/canonical-name"], l["service.istio.io/canonical-revision"] = "c", "v3"
	require.Equal(t, "c v3", of(l).CanonicalName+" "+of(l).CanonicalRevision)
	require.Equal(t, "a v1", of(l).App+" "+of(l).Version)
}

func TestWorkloadsAreReadAsTheyWereWritten(t *testing.T) {
	for want, w := range map[string]Workload{
		"w;ns;a;v1;c":        {"w", "ns", "a", "v1", "c", "a", "v1"},
		"w;ns;w;latest;;;":   {"w", "ns", "w", "latest", "", "", ""},
		"w;ns;a;latest;c;a;": {"w", "ns", "a", "latest", "c", "a", ""},
	} {
		require.Equal(t, want, w.String())
		require.Equal(t, w, Parse(w.String()))
	}
	require.Equal(t, "a_b_;;;;", Workload{Name: "a b;"}.String(), "what separates fields is no part of one")
	require.Len(t, Parse(strings.Repeat("x", 100_000)).Name, maxField)
	require.Equal(t, Workload{}, Parse("1;2;3;4;5;6;7;8"))
	require.Equal(t, Workload{Name: "w", Namespace: "ns", App: "a"}, Parse("w;ns;-;-;-;a;-"), "as Envoy writes nothing")
}

func TestSpanVariables(t *testing.T) {
	w := Workload{
		Name: "w", Namespace: "ns", CanonicalName: "c", CanonicalRevision: "v1", Cluster: "k", App: "a", Version: "v1",
	}
	require.Equal(t, []string{
		"CANONICAL_SERVICE=c", "CANONICAL_REVISION=v1", "POD_NAMESPACE=ns", "ISTIO_META_CLUSTER_ID=k",
		"DD_SERVICE=c.ns", "OTEL_RESOURCE_ATTRIBUTES=service.name=c.ns",
	}, w.SpanVariables(labels(nil)))
	set := map[string]string{
		"CANONICAL_SERVICE": "x", "CANONICAL_REVISION": "x", "POD_NAMESPACE": "ns", "ISTIO_META_CLUSTER_ID": "k",
		"DD_SERVICE": "x", "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
	}
	require.Equal(t, []string{"OTEL_RESOURCE_ATTRIBUTES=service.name=c.ns,deployment.environment=test"},
		w.SpanVariables(labels(set)))
	set["OTEL_RESOURCE_ATTRIBUTES"] = "a=b, service.name=mine"
	require.Empty(t, w.SpanVariables(labels(set)))
}

func TestTagsAreReadAsEnvoyWritesThem(t *testing.T) {
	got, ok := ParseRequest("1s 200  - spiffe://td/ns/a/sa/b outbound|80||a.b.svc w;ns;a;v1;")
	require.True(t, ok)
	require.Equal(t, Fields{
		Code: "200", Flags: "-", PeerPrincipal: "spiffe://td/ns/a/sa/b", Service: "outbound|80||a.b.svc",
		Peer: Workload{"w", "ns", "a", "v1", "", "a", "v1"},
	}, got)
	got, ok = ParseRequest("1d 503 14 UF   -")
	require.True(t, ok)
	require.Equal(t, Fields{Form: Form{By: Destination}, Code: "503", GRPC: "14", Flags: "UF"}, got)
	got, ok = ParseConnection("1d UF,URX - outbound_.80_.v1_.a.b.svc")
	require.True(t, ok)
	require.Equal(t, Fields{Form: Form{By: Destination}, Flags: "UF,URX", Service: "outbound_.80_.v1_.a.b.svc"}, got)
	_, ok = ParseRequest("2s 200 - -")
	require.False(t, ok)
	_, ok = ParseRequest("")
	require.False(t, ok)
}

func TestFormsAreReadAsTheyWereWritten(t *testing.T) {
	for want, f := range map[string]Form{
		"1s": {}, "1d": {By: Destination},
		"1d,-response_code,-source_app,u": {
			By: Destination, Without: []string{"response_code", "source_app"}, Uncounted: true,
		},
	} {
		require.Equal(t, want, f.head())
		got, ok := ParseRequest(f.head() + " 200  - - -")
		require.True(t, ok)
		require.Equal(t, f, got.Form)
	}
	without := Form{Without: []string{CodeLabel, FlagsLabel}}
	require.Contains(t, without.RequestFormat(), " - "+grpcStatus+" - ", "what no label shows makes no statistics")
	require.Contains(t, without.ConnectionFormat(), CodeLabel+","+withoutSign+FlagsLabel+" - %UPSTREAM")
	_, ok := ParseRequest("1s,x 200  - - -")
	require.False(t, ok, "an option of a later form")
}

func TestMessages(t *testing.T) {
	require.Equal(t, 2.0, Messages(RequestMessages, "2,30"))
	require.Equal(t, 30.0, Messages(ResponseMessages, "2,30"))
	for _, tag := range []string{"", "-", "a,b", "-1,-1", "1e9,1e9"} {
		require.Zero(t, Messages(RequestMessages, tag), tag)
		require.Zero(t, Messages(ResponseMessages, tag), tag)
	}
}

func TestServiceHost(t *testing.T) {
	require.Equal(t, "a.b.svc", ServiceHost("outbound|80|v1|a.b.svc"))
	require.Equal(t, "a.b.svc", ServiceHost("outbound_.80_._.a.b.svc"))
	require.Empty(t, ServiceHost("PassthroughCluster"))
	require.Empty(t, ServiceHost("www.example.com"))
}
