package livemesh

import (
	"os"
	"path/filepath"
	"testing"
)

// envoyBinary is that of $LATEEN_ENVOY, or .tools/envoy in this directory or one above. Without one the test is skipped, unless
// $LATEEN_ENVOY_REQUIRED is 1.
func envoyBinary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("LATEEN_ENVOY"); path != "" {
		return path
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		path := filepath.Join(dir, ".tools", "envoy")
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
		above := filepath.Dir(dir)
		if above == dir {
			break
		}
		dir = above
	}
	const missing = "there is no Envoy: neither $LATEEN_ENVOY nor .tools/envoy (make envoy)"
	if os.Getenv("LATEEN_ENVOY_REQUIRED") == "1" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}
