package render

import (
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
)

// TestChartsPassHelmsLint: helm lint finds no more than that a chart has no icon.
func TestChartsPassHelmsLint(t *testing.T) {
	for _, name := range []string{Base, Lateen, Gateway} {
		values := map[string]any{}
		if name == Lateen {
			values["pilot"] = map[string]any{"image": "registry.example.com/lateen:v1"}
		}
		for _, m := range lint.RunAll(files+name, values, "istio-system").Messages {
			require.Less(t, m.Severity, support.WarningSev, "%s: %s", name, m)
		}
	}
}
