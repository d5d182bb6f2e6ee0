package kubeapi

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// errNoBinary is what tests are skipped with.
var errNoBinary = errors.New("there is no Kubernetes: neither $LATEEN_KUBE nor .tools/kube (make kube)")

// binary is that of $LATEEN_KUBE, or .tools/kube in this directory or one above.
func binary() (string, error) {
	if path := os.Getenv("LATEEN_KUBE"); path != "" {
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, ".tools", "kube")
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}
	return "", errNoBinary
}

// require skips a test that has no server because there is no binary, unless $LATEEN_KUBE_REQUIRED
// is set, and fails it for any other reason.
func require(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errNoBinary) && os.Getenv("LATEEN_KUBE_REQUIRED") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func fatal(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
