package convert

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

func TestWhatAPodStatesOfItsProxy(t *testing.T) {
	c := New(Options{})
	got, problems := c.Stated(`
concurrency: 2
proxyHeaders: {requestId: {disabled: true}}
connectionSettings: {profile: EDGE, httpMaxConcurrentStreams: 9, globalDownstreamConnectionLimit: 100}
tracing:
  sampling: 50
  maxPathTagLength: 64
  enableIstioTags: false
  customTags: {a: {literal: {value: b}}, "": {literal: {value: b}}}
  zipkin: {address: "zipkin.istio-system:9411"}
  tlsSettings: {mode: SIMPLE}
`)
	require.Equal(t, &model.Stated{
		Headers:     &model.ProxyHeaders{NoRequestID: true},
		Connections: &model.ConnectionSettings{Edge: true, MaxStreams: 9},
		Tracing: model.StatedTracing{
			Sampling: 5000, MaxPathLength: 64, Tags: []model.TraceTag{{Name: "a", Value: "b"}}, IstioTags: new(false),
		},
	}, got)
	again, _ := c.Stated("{proxyHeaders: {requestId: {disabled: true}}, " +
		"connectionSettings: {profile: EDGE, httpMaxConcurrentStreams: 9}, tracing: {sampling: 50, " +
		"maxPathTagLength: 64, enableIstioTags: false, customTags: {a: {literal: {value: b}}}}}")
	require.Same(t, got, again, "canonical")
	var told []string
	for _, p := range problems {
		told = append(told, p.Path)
	}
	const at = "metadata.annotations[proxy.istio.io/config].tracing"
	require.Equal(t, []string{at + `.customTags[""]`, at + ".tlsSettings", at}, told)

	got, problems = c.Stated("holdApplicationUntilProxyStarts: true")
	require.Nil(t, got)
	require.Empty(t, problems)
	got, problems = c.Stated("- a list")
	require.Nil(t, got)
	require.Len(t, problems, 1)
}

// What proxies read when they start is in force where the control plane injects them.
func TestWhatProxiesStartWithIsReportedWhereNobodyPassesItOn(t *testing.T) {
	config := &corev1.ConfigMap{Data: map[string]string{"mesh": "defaultConfig: {concurrency: 2, " +
		"proxyMetadata: {A: b}, privateKeyProvider: {qat: {}}}"}}
	paths := func(o Options) (all []string) {
		c := New(o)
		for _, p := range c.Convert(source.Change{Key: c.MeshKey(), Object: config}, model.DefaultMesh()).Problems {
			all = append(all, p.Path)
		}
		return all
	}
	const at = "data.mesh.defaultConfig."
	require.Equal(t, []string{at + "privateKeyProvider"}, paths(Options{Injects: true}))
	require.ElementsMatch(t,
		[]string{at + "concurrency", at + `proxyMetadata["A"]`, at + "privateKeyProvider"},
		paths(Options{}))
	require.ElementsMatch(t,
		[]string{at + `proxyMetadata["A"]`, at + "privateKeyProvider"}, paths(Options{Workers: true}))
}
