// Package tool finds the programs that tests run: Envoy, Prometheus, istioctl. It imports nothing
// of Lateen; only tests import it.
package tool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// absent is the value of $LATEEN_NAME that leaves a program out, though it is there.
const absent = "none"

// Find returns the program of $LATEEN_NAME, or else .tools/name in this directory or one above; an
// empty path if there is none, or $LATEEN_NAME is none.
func Find(name string) (path string, err error) {
	switch path := os.Getenv(variable(name)); path {
	case "":
	case absent:
		return "", nil
	default:
		return path, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, ".tools", name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}
	return "", nil
}

// Path is what Find returns. Without the program the test is skipped, or fails if
// $LATEEN_NAME_REQUIRED is set; target is the Makefile's that fetches or builds it.
func Path(t testing.TB, name, target string) string {
	t.Helper()
	path, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	if path != "" {
		return path
	}
	missing := "there is no " + name + ": neither $" + variable(name) + " nor .tools/" + name + " (make " + target + ")"
	if os.Getenv(variable(name)+"_REQUIRED") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

func variable(name string) string { return "LATEEN_" + strings.ToUpper(name) }
