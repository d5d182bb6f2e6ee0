package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLastWordsTellTheCause and leave out what a control plane reports while it is well.
func TestLastWordsTellTheCause(t *testing.T) {
	const (
		mended = `time=2026-11-29T01:00:00Z level=INFO msg="problem mended" problem="error: a.yaml:1: Service a/b"`
		warned = `time=2026-11-29T01:00:00Z level=WARN msg=problem severity=error problem="Service a/b"`
		asJSON = `{"time":"2026-11-29T01:00:00Z","level":"INFO","msg":"problem mended","problem":"x"}`
		failed = `time=2026-11-29T01:00:01Z level=ERROR msg="xds ended" error="no more memory"`
	)
	stack := []string{"panic: assignment to entry in nil map", "", "goroutine 1 [running]:"}
	for range 100 {
		stack = append(stack, "main.main()", "	/src/main.go:1 +0x1d")
	}
	for name, c := range map[string]struct{ lines, want []string }{
		"killed":    {[]string{mended, warned, asJSON, mended}, nil},
		"an error":  {[]string{failed, mended, warned}, []string{failed}},
		"a message": {[]string{mended, "lateen: listen: no such address"}, []string{"lateen: listen: no such address"}},
		"the last of many": {
			[]string{failed, "a", "b", "c", mended}, []string{"a", "b", "c"},
		},
		"a panic": {append([]string{failed, mended}, stack...), stack[:panicLines]},
		"nothing": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			before := failed + "\n" // of the process that ran before
			content := before + strings.Join(c.lines, "\n") + "\n"
			require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
			got := lastWords(path, int64(len(before)))
			if len(c.want) == 0 {
				require.Empty(t, got)
				return
			}
			require.Equal(t, c.want, got)
		})
	}
}
