package perf

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/sizing"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// estimated runs lateen perf model.
func estimated(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd := newPerfModel(console.Plain(&out))
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestDocsShowTheModel holds the tables of the document that lateen perf model has written; with
// -update it writes them anew.
func TestDocsShowTheModel(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "performance.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```\n(\\$ lateen perf model[^\n]*)\n(.*?)```")
	require.NotEmpty(t, blocks.FindAll(text, -1))
	written := blocks.ReplaceAllStringFunc(string(text), func(block string) string {
		command := blocks.FindStringSubmatch(block)[1]
		out, err := estimated(t, strings.Fields(strings.TrimPrefix(command, "$ lateen perf model"))...)
		require.NoError(t, err)
		return "```\n" + command + "\n" + out + "```"
	})
	golden.File(t, path, written)
}

func TestPerfCompares(t *testing.T) {
	dir := t.TempDir()
	report := func(name string, r perf.Report) string {
		var text strings.Builder
		require.NoError(t, command.PrintAs(&text, strings.TrimPrefix(filepath.Ext(name), "."), r))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o600))
		return filepath.Join(dir, name)
	}
	phase := perf.Phase{Name: "connect", Sidecars: 5, CPU: measure.Seconds(30 * time.Second), Resident: 1 << 20}
	a := report("a.json", perf.Report{Scenario: "restart", Phases: []perf.Phase{phase}})
	phase.CPU /= 100
	b := report("b.yaml", perf.Report{Scenario: "churn", Phases: []perf.Phase{phase}})
	out := &strings.Builder{}
	cmd := newPerfCompare(console.Plain(out))
	cmd.SetOut(out)
	cmd.SetArgs([]string{a, b})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Regexp(t, `CPU +30.0 s +300 ms +100`, out.String())
	require.Contains(t, out.String(), "the runs differ: scenario: restart, and churn")
	cmd.SetArgs([]string{a})
	require.ErrorContains(t, cmd.ExecuteContext(t.Context()), "a.json: these are no two reports")
	var both strings.Builder
	r := perf.Report{Scenario: "restart", Phases: []perf.Phase{phase}}
	require.NoError(t, command.PrintAs(&both, "json", perf.Beside{A: r, B: r}))
	path := filepath.Join(dir, "both.json")
	require.NoError(t, os.WriteFile(path, []byte(both.String()), 0o600))
	cmd.SetArgs([]string{path})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Regexp(t, `CPU +300 ms +300 ms +1`, out.String())
	cmd.SetArgs([]string{a, filepath.Join(dir, "none.json")})
	require.ErrorContains(t, cmd.ExecuteContext(t.Context()), "none.json")
}

func TestModelTakesConstants(t *testing.T) {
	c, err := sizing.Stored()
	require.NoError(t, err)
	c.SidecarBytes *= 10
	c.Version = "another"
	var file strings.Builder
	require.NoError(t, command.PrintAs(&file, "yaml", c))
	path := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(path, []byte(file.String()), 0o600))
	out, err := estimated(t, "--sidecars", "1000", "--services", "10", "--constants", path)
	require.NoError(t, err)
	require.Contains(t, out, "from lateen another")
	out, err = estimated(t, "--sidecars", "1000,2000", "--services", "10", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"sidecars": 2000`)
}

func TestModelTellsMistakes(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.json")
	require.NoError(t, os.WriteFile(broken, []byte(`{"sidecars": 5}`), 0o600))
	for want, args := range map[string][]string{
		"500 sidecars: 5 pods":                 {"--sidecars", "500", "--pods", "5"},
		"--constants no/such/file":             {"--constants", "no/such/file"},
		broken + ": constants: error unmarsha": {"--constants", broken},
		"weather":                              {"--kind", "weather"},
	} {
		_, err := estimated(t, args...)
		require.ErrorContains(t, err, want)
	}
}
