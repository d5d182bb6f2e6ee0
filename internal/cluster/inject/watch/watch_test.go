package watch

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/version"

	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/observe"
)

func TestNativeSidecarsNeedKubeletsThatRunThem(t *testing.T) {
	for v, want := range map[version.Info]bool{
		{Major: "1", Minor: "31"}:  false,
		{Major: "1", Minor: "32"}:  true,
		{Major: "1", Minor: "33+"}: true,
		{Major: "2", Minor: "0"}:   true,
		{Major: "", Minor: ""}:     false,
		{Major: "1", Minor: "new"}: false,
	} {
		require.Equal(t, want, runsNative(v), "%+v", v)
	}
}

func TestTheLastGoodConfigurationStays(t *testing.T) {
	metrics := observe.New(observe.Build{Start: time.Now(), Now: time.Now})
	w := New(Options{Metrics: metrics, Log: slog.New(slog.DiscardHandler)})
	_, err := w.Injector()
	require.ErrorContains(t, err, "has not been read yet")
	require.Error(t, w.Ready())

	w.set(inject.Options{}, inject.Texts{Config: "policy: sometimes"})
	_, err = w.Injector()
	require.ErrorContains(t, err, `policy = "sometimes"; want enabled or disabled`)
	require.NoError(t, w.Ready(), "proxies are served all the same")

	w.set(inject.Options{}, inject.Texts{})
	good, err := w.Injector()
	require.NoError(t, err)
	w.set(inject.Options{}, inject.Texts{Values: "global: 5"})
	still, err := w.Injector()
	require.NoError(t, err)
	require.Same(t, good, still)
	require.Equal(t, 2.0, valueOf(t, metrics.Injection.ConfigErrors))
}

func valueOf(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, c.Write(&m))
	return m.Counter.GetValue()
}
