package observe

import (
	"fmt"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/testkit/realprometheus"
)

// Where Prometheus scrapes native histograms, the signals and the dashboards have the times below
// istiod's first bucket, which is 100 ms. Elsewhere they have what that bucket tells.
func TestTimesBelowIstiodsFirstBucketAreSeen(t *testing.T) {
	metrics := observe.New(observe.Build{Start: time.Now(), Now: time.Now})
	target := httptest.NewServer(promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{}))
	t.Cleanup(target.Close)
	var signal string
	for _, r := range readRules(t) {
		if r.Record == "lateen:proxy_convergence_seconds:p99_1m" {
			signal = r.Expr
		}
	}
	require.NotEmpty(t, signal)
	for name, c := range map[string]struct {
		flags []string
		want  float64
	}{
		"native":  {[]string{"--enable-feature=native-histograms"}, 0.004},
		"classic": {nil, 0.099},
	} {
		t.Run(name, func(t *testing.T) {
			p := realprometheus.Start(t, fmt.Sprintf(`global: {scrape_interval: 1s}
scrape_configs: [{job_name: control-plane, static_configs: [{targets: [%q]}]}]
`, target.Listener.Addr()), c.flags...)
			var got float64
			require.Eventually(t, func() bool {
				metrics.Push.Convergence.Observe(0.004)
				found, err := p.Query(t.Context(), signal)
				require.NoError(t, err)
				if len(found) == 0 {
					return false
				}
				got, err = strconv.ParseFloat(fmt.Sprint(found[0].Value[1]), 64)
				return err == nil && got > 0
			}, patience, 100*time.Millisecond)
			require.InEpsilon(t, c.want, got, 0.1)
		})
	}
}
