package observe

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

const (
	rulesFile = "../../charts/lateen/files/monitoring/rules.yaml"
	casesFile = "testdata/rules.test.yaml"
)

// ruleFile is a file of Prometheus' rules.
type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Record string            `json:"record"`
	Alert  string            `json:"alert"`
	Expr   string            `json:"expr"`
	Labels map[string]string `json:"labels"`
}

func readRules(t *testing.T) (all []rule) {
	t.Helper()
	var file ruleFile
	readYAML(t, rulesFile, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// TestRules has promtool run the cases of testdata.
func TestRules(t *testing.T) {
	promtool := tool.Path(t, "promtool", "prometheus")
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", rulesFile},
		{"test", "rules", casesFile},
	} {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// TestEachAlertHasCases: one in which it fires, and one in which it does not.
func TestEachAlertHasCases(t *testing.T) {
	var file struct {
		Tests []struct {
			Alerts []struct {
				Name     string `json:"alertname"`
				Expected []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		} `json:"tests"`
	}
	readYAML(t, casesFile, &file)
	fires, rests := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Name] = true
			} else {
				rests[a.Name] = true
			}
		}
	}
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		require.True(t, fires[r.Alert], "%s fires in no case", r.Alert)
		require.True(t, rests[r.Alert], "%s fires in each case", r.Alert)
		require.Contains(t, []string{"info", "warning", "critical"}, r.Labels["severity"], r.Alert)
	}
}
