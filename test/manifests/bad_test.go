package manifests

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// healthy is a mesh that has something of each kind, in namespaces of its own.
const healthy = `
apiVersion: v1
kind: Service
metadata: {name: a, namespace: default}
spec: {selector: {app: a}, ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 7777, targetPort: 7000}]}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: default, labels: {app: a, version: v1}}
status: {podIP: 127.32.1.1, phase: Running}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: a, namespace: default, labels: {kubernetes.io/service-name: a}}
addressType: IPv4
endpoints: [{addresses: [127.32.1.1], conditions: {ready: true}, targetRef: {kind: Pod, name: a}}]
ports: [{name: http, port: 8080}, {name: tcp, port: 7000}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: shop}
spec:
  hosts: [healthy.test]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 127.9.0.1}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a, namespace: default}
spec: {host: a, trafficPolicy: {loadBalancer: {simple: RANDOM}}, subsets: [{name: v1, labels: {version: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a, namespace: default}
spec:
  hosts: [a, in.healthy.test]
  gateways: [mesh, istio-system/g]
  http: [{timeout: 3s, route: [{destination: {host: a, subset: v1, port: {number: 80}}}]}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: g, namespace: istio-system}
spec:
  selector: {istio: ingress}
  servers: [{port: {number: 7780, name: http, protocol: HTTP}, hosts: ["*.healthy.test"]}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: s, namespace: shop}
spec: {egress: [{hosts: [default/*, shop/*]}]}
`

// TestABadObjectHarmsNobody takes an object that has about every field of its kind, breaks one of
// them, and puts it into a mesh that has nothing to do with it: what the others have stays as it
// is, byte for byte, and it is told what is wrong.
func TestABadObjectHarmsNobody(t *testing.T) {
	objects := richObjects(t)
	good := read(t, "healthy.yaml", healthy)
	before := start(t, memory.New(good...))
	before.settle()
	want := before.resources()
	before.stop()
	require.Empty(t, before.problems())
	rapid.Check(t, func(rt *rapid.T) {
		bad := broken(rt, rapid.SampledFrom(objects).Draw(rt, "object"))
		changes, problems := manifest.Read("bad.yaml", bad)
		all := slices.Clone(good)
		for _, d := range changes {
			c := d.Change(time.Time{})
			if claimsOfOthers(c) {
				rt.Skip("it is wrong no more, and claims what others have")
			}
			all = append(all, c)
		}
		m := start(rt, memory.New(rapid.Permutation(all).Draw(rt, "order")...))
		m.settle()
		got := m.resources()
		for name, version := range want {
			require.Equal(rt, version, got[name], "%s, because of\n%s%v", name, bad, problems)
		}
		requireSound(rt, m)
	})
}

// richObjects are the objects of the golden cases of the conversion, in a namespace of their own.
func richObjects(t *testing.T) []map[string]any {
	cases, err := filepath.Glob("../../internal/api/convert/testdata/*.yaml")
	require.NoError(t, err)
	var objects []map[string]any
	for _, file := range cases {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		for text := range strings.SplitSeq(string(data), "\n---\n") {
			var o map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(text), &o), file)
			meta, ok := o["metadata"].(map[string]any)
			if !ok || o["kind"] == "ConfigMap" { // a mesh configuration is for everybody
				continue
			}
			meta["namespace"] = "bad"
			if o["kind"] == "Namespace" {
				delete(meta, "namespace")
			}
			objects = append(objects, o)
		}
	}
	require.NotEmpty(t, objects)
	return objects
}

// badValues are wrong for most fields, and right for hardly any.
func badValues() []any {
	return []any{
		nil, -1, 0, 65536, 1e18, 3.5, true, "", " ", "-", "a b", "http://x/", "*.*", "..", "\x00", "999999h", "-1s",
		"127.0.0.1:0", "(", "|",
		strings.Repeat("x", 300), []any{}, []any{nil}, []any{"", ""}, map[string]any{}, map[string]any{"unknown": 1},
	}
}

// broken is an object as a manifest with one field broken, but for its name.
func broken(rt *rapid.T, o map[string]any) []byte {
	data, err := yaml.Marshal(o)
	require.NoError(rt, err)
	var copied map[string]any
	require.NoError(rt, yaml.Unmarshal(data, &copied))
	var places []func(any)
	for _, part := range slices.Sorted(maps.Keys(copied)) {
		if part != "metadata" && part != "kind" && part != "apiVersion" {
			collect(copied[part], func(v any) { copied[part] = v }, &places)
		}
	}
	if len(places) > 0 {
		rapid.SampledFrom(places).Draw(rt, "place")(rapid.SampledFrom(badValues()).Draw(rt, "value"))
	}
	data, err = yaml.Marshal(copied)
	require.NoError(rt, err)
	return data
}

// collect finds all places of a tree where something could stand instead, in a fixed order.
func collect(v any, set func(any), places *[]func(any)) {
	*places = append(*places, set)
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			collect(v[k], func(n any) { v[k] = n }, places)
		}
	case []any:
		for i := range v {
			collect(v[i], func(n any) { v[i] = n }, places)
		}
	}
}

// claimsOfOthers tells whether an object claims, rightly, what the healthy mesh has: hosts by a
// wildcard, a port, a gateway.
func claimsOfOthers(c source.Change) bool {
	claims := func(h model.Host) bool {
		return slices.ContainsFunc([]model.Host{"a.default.svc.cluster.local", "healthy.test", "in.healthy.test"},
			h.Overlaps)
	}
	for _, o := range convert.New(convert.Options{}).Convert(c, model.DefaultMesh()).Objects {
		switch o := o.(type) {
		case *model.Service:
			_, port := o.Port(7777)
			return port || claims(o.Host)
		case *model.VirtualService:
			return slices.ContainsFunc(o.Hosts, claims)
		case *model.Gateway:
			return slices.ContainsFunc(o.Servers, func(s model.GatewayServer) bool { return s.Port == 7780 })
		}
	}
	return false
}

func read(t require.TestingT, name, manifests string) []source.Change {
	documents, problems := manifest.Read(name, []byte(manifests))
	require.Empty(t, problems)
	var changes []source.Change
	for _, d := range documents {
		changes = append(changes, d.Change(time.Time{}))
	}
	return changes
}
