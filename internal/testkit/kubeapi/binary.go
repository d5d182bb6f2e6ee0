package kubeapi

import (
	"errors"
	"os"
	"testing"

	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// errNoBinary is what tests are skipped with.
var errNoBinary = errors.New("there is no Kubernetes: neither $LATEEN_KUBE nor .tools/kube (make kube)")

// binary is that of $LATEEN_KUBE, or .tools/kube in this directory or one above.
func binary() (string, error) {
	path, err := tool.Find("kube")
	if err == nil && path == "" {
		err = errNoBinary
	}
	return path, err
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
