// Package realenvoy finds the Envoy that tests run. It imports nothing of Lateen, and only tests
// import it.
package realenvoy

import (
	"os"
	"path/filepath"
	"testing"
)

// Binary is that of $LATEEN_ENVOY, or .tools/envoy in this directory or one above. Without one the
// test is skipped, or fails if $LATEEN_ENVOY_REQUIRED is set.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("LATEEN_ENVOY"); path != "" {
		return path
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, ".tools", "envoy")
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	const missing = "there is no Envoy: neither $LATEEN_ENVOY nor .tools/envoy (make envoy)"
	if os.Getenv("LATEEN_ENVOY_REQUIRED") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}
