package view_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/ingest"
	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/dir"
	"github.com/lateen-mesh/lateen/internal/view"
	"github.com/lateen-mesh/lateen/internal/world"
)

var update = flag.Bool("update", false, "rewrite testdata/*.out.txt")

// caseProxy is the first document of a case: for which proxy its manifests are compiled.
type caseProxy struct {
	Type          string            `json:"type"` // sidecar (the default) or router
	Namespace     string            `json:"namespace"`
	Name          string            `json:"name"`
	Labels        map[string]string `json:"labels"`
	HTTPProxyPort uint16            `json:"httpProxyPort"`
}

// TestGolden compiles the manifests of testdata/<case>.in.yaml for one proxy and compares what it gets, in short, with
// testdata/<case>.out.txt. A case is added by adding its input and running the test with -update.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, in := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.yaml"), func(t *testing.T) {
			got := compileCase(t, in)
			golden := strings.TrimSuffix(in, ".in.yaml") + ".out.txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
				return
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "run go test ./internal/view -update")
			require.Equal(t, string(want), got)
		})
	}
}

func compileCase(t *testing.T, path string) string {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	header, manifests, ok := bytes.Cut(data, []byte("\n---\n"))
	require.True(t, ok, "a case begins with a document that describes the proxy")
	var p caseProxy
	require.NoError(t, yaml.UnmarshalStrict(header, &p))
	documents, problems := dir.Read(path, manifests)
	require.Empty(t, problems)

	converter, writer := ingest.New(ingest.Options{}), world.NewWriter()
	var updates []world.Update
	for _, d := range documents {
		result := converter.Convert(d.Change(d.Object.GetCreationTimestamp().Time), model.DefaultMesh())
		updates = append(updates, world.Update{Key: d.Key, Objects: result.Objects})
	}
	compiler := view.NewCompiler(view.Refusals{
		Endpoint: func(e model.Endpoint, err error) { t.Errorf("%v: %v", e, err) }, Resource: func(name string, err error) { t.Errorf("%s: %v", name, err) },
	})
	_, delta := writer.Apply(updates)
	var step view.Step
	compiler.Advance(delta, func(s view.Step) { step = s })
	var out strings.Builder
	compiler.Join(p.facts(), func(_ *view.Member, placed view.Placement) {
		describe(t, &out, placed)
		checkRefs(t, placed.State)
	})
	elsewhere := &model.Namespace{Meta: model.Meta{Kind: source.Namespace, Name: "elsewhere"}}
	_, delta = writer.Apply([]world.Update{{Key: elsewhere.Key(), Objects: []model.Object{elsewhere}}}) // a step, so that conflicts are told
	compiler.Advance(delta, func(s view.Step) { step = s })
	for _, c := range step.Appeared {
		fmt.Fprintln(&out, "conflict:", c)
	}
	return out.String()
}

func (p caseProxy) facts() view.Facts {
	f := view.Facts{Address: "127.32.0.1", Proxy: scope.Proxy{
		Namespace: p.Namespace, Name: p.Name, Labels: model.LabelsOf(p.Labels), Settings: scope.Settings{HTTPProxyPort: p.HTTPProxyPort},
	}}
	if p.Type == "router" {
		f.Proxy.Type = scope.Router
	}
	return f
}

// describe writes what a person would look for: names, domains, where requests go, which endpoints there are.
func describe(t *testing.T, out *strings.Builder, p view.Placement) {
	for typ, set := range p.State.Sets {
		for _, name := range set.Names() {
			body := p.Own.Body(view.Type(typ), set.Get(name))
			switch view.Type(typ) {
			case view.Cluster:
				c := decode(t, body, &clusterv3.Cluster{})
				fmt.Fprintf(out, "cluster %s %s\n", name, c.GetType())
			case view.Endpoint:
				describeEndpoints(out, decode(t, body, &endpointv3.ClusterLoadAssignment{}))
			case view.Listener:
				l := decode(t, body, &listenerv3.Listener{})
				a := l.GetAddress().GetSocketAddress()
				fmt.Fprintf(out, "listener %s at %s:%d\n", name, a.GetAddress(), a.GetPortValue())
				if bytes.Contains(body, []byte("extensions.filters.http.rbac")) {
					fmt.Fprintln(out, "  refuses")
				}
				for _, c := range l.GetFilterChains() {
					fmt.Fprintf(out, "  chain %s sni=%v\n", c.GetName(), c.GetFilterChainMatch().GetServerNames())
				}
			case view.Route:
				describeRoutes(out, decode(t, body, &routev3.RouteConfiguration{}))
			}
		}
	}
}

func decode[M proto.Message](t *testing.T, body []byte, m M) M {
	require.NoError(t, proto.Unmarshal(body, m))
	return m
}

func describeEndpoints(out *strings.Builder, a *endpointv3.ClusterLoadAssignment) {
	var hosts []string
	for _, g := range a.GetEndpoints() {
		for _, e := range g.GetLbEndpoints() {
			s := e.GetEndpoint().GetAddress().GetSocketAddress()
			hosts = append(hosts, fmt.Sprintf("%s:%d %s", s.GetAddress(), s.GetPortValue(), e.GetHealthStatus()))
		}
	}
	slices.Sort(hosts)
	fmt.Fprintf(out, "endpoints %s %v\n", a.GetClusterName(), hosts)
}

func describeRoutes(out *strings.Builder, rc *routev3.RouteConfiguration) {
	fmt.Fprintf(out, "routes %s\n", rc.GetName())
	vhosts := slices.SortedFunc(slices.Values(rc.GetVirtualHosts()), func(a, b *routev3.VirtualHost) int { return strings.Compare(a.GetName(), b.GetName()) })
	for _, v := range vhosts {
		fmt.Fprintf(out, "  %s\n    %s\n", v.GetName(), strings.Join(v.GetDomains(), " "))
		if v.GetRequireTls() == routev3.VirtualHost_ALL {
			fmt.Fprintln(out, "    redirects to https")
		}
		for _, r := range v.GetRoutes() {
			fmt.Fprintf(out, "    %s -> %s\n", matchText(r.GetMatch()), actionText(r))
		}
	}
}

func matchText(m *routev3.RouteMatch) string {
	text := m.GetPrefix() + m.GetPath() + m.GetPathSeparatedPrefix() + m.GetSafeRegex().GetRegex()
	for _, h := range m.GetHeaders() {
		text += " " + h.GetName()
	}
	return text
}

func actionText(r *routev3.Route) string {
	switch {
	case r.GetDirectResponse() != nil:
		return fmt.Sprint(r.GetDirectResponse().GetStatus())
	case r.GetRedirect() != nil:
		return "redirect"
	case r.GetRoute().GetWeightedClusters() != nil:
		var parts []string
		for _, c := range r.GetRoute().GetWeightedClusters().GetClusters() {
			parts = append(parts, fmt.Sprintf("%s×%d", c.GetName(), c.GetWeight().GetValue()))
		}
		return strings.Join(parts, " ")
	}
	return r.GetRoute().GetCluster()
}
