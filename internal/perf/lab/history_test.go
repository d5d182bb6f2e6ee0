package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHistoryReadsWhatLabsWrite runs hack/perf-history.py and its tests: it keeps each figure of
// the reports in docs/seeds, judges three runs of two versions by its rule, and draws them.
func TestHistoryReadsWhatLabsWrite(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python")
	}
	const hack = "../../../hack/"
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), python, args...).CombinedOutput()
		return string(out), err
	}
	out, err := run(hack + "perf-history_test.py")
	require.NoError(t, err, out)

	dir := t.TempDir()
	history := filepath.Join(dir, "history.jsonl")
	want := 0
	for _, version := range []string{"v1", "v2"} {
		for i := range 3 {
			report, figures := aReport(t, version, i)
			want += figures
			out, err = run(hack+"perf-history.py", "add", history, report)
			require.NoError(t, err, out)
		}
	}
	kept, err := os.ReadFile(history)
	require.NoError(t, err)
	require.Equal(t, want, strings.Count(string(kept), "\n"))
	out, err = run(hack+"perf-history.py", "check", history)
	require.NoError(t, err, out)
	require.Regexp(t, `^v2: [1-9]\d* figures judged, 0 worse, 0 with too few runs`, out)
	out, err = run(hack+"perf-history.py", "page", history, filepath.Join(dir, "history.md"))
	require.NoError(t, err, out)
	drawn, err := filepath.Glob(filepath.Join(dir, "history", "*.svg"))
	require.NoError(t, err)
	require.NotEmpty(t, drawn)
}

// aReport writes a report of the book's lab as another version, and says how many figures it has.
func aReport(t *testing.T, version string, n int) (path string, figures int) {
	t.Helper()
	content, err := os.ReadFile("../../../docs/seeds/book.json")
	require.NoError(t, err)
	r, err := ParseReport(content)
	require.NoError(t, err)
	for _, table := range r.Tables {
		for _, row := range table.Rows {
			for _, c := range row.Cells {
				if c.Ours != nil {
					figures++
				}
			}
		}
	}
	changed := strings.Replace(string(content), fmt.Sprintf("%q", r.Lateen), fmt.Sprintf("%q", version), 1)
	path = filepath.Join(t.TempDir(), fmt.Sprintf("%s-%d.json", version, n))
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
	return path, figures
}
