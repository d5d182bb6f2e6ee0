package observe

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/realprometheus"
)

// patience is how long anything may take.
const patience = 3 * time.Minute

// prometheus is a real one, which scrapes a control plane each second.
type prometheus struct{ *realprometheus.Server }

func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	rules, err := filepath.Abs(rulesFile)
	require.NoError(t, err)
	return &prometheus{realprometheus.Start(t, fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
- job_name: control-plane
  static_configs: [{targets: [%q], labels: {app: istiod}}]
`, rules, target))}
}

// hasData reports whether a query has a number at some time since Prometheus has started.
func (p *prometheus) hasData(ctx context.Context, query string) (bool, error) {
	q := url.Values{"query": {query}, "step": {"1"}}
	q.Set("start", strconv.FormatInt(p.Began.Unix(), 10))
	q.Set("end", strconv.FormatInt(time.Now().Unix(), 10))
	var data struct {
		Result []struct {
			Values [][2]any `json:"values"`
		} `json:"result"`
	}
	if _, err := p.Get(ctx, "query_range", q, &data); err != nil {
		return false, err
	}
	for _, series := range data.Result {
		for _, v := range series.Values {
			number, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
			if err == nil && !math.IsNaN(number) {
				return true, nil
			}
		}
	}
	return false, nil
}
