package change

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// repository is the checkout's root, seen from this package.
const repository = "../../.."

// binary is the lateen that the tests run: that of the variable LATEEN_BINARY, or one built for this run.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lateen-change-")
	if err == nil {
		binary, err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func build(dir string) (string, error) {
	if path := os.Getenv("LATEEN_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(dir, "lateen")
	args := append(append([]string{"build"}, buildFlags...), "-o", path, repository+"/cmd/lateen")
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// sources makes the results of these tests depend on the product's sources: "go test" keeps a result while the files that a test
// has looked at are the same, and does not know that the binary was built from these.
var sources = sync.OnceValue(func() error {
	for _, dir := range []string{"cmd", "internal", "examples"} {
		ignore := func(string, fs.DirEntry, error) error { return nil } // reading the directories is what counts
		if err := filepath.WalkDir(filepath.Join(repository, dir), ignore); err != nil {
			return err
		}
	}
	return nil
})

// envoy is the Envoy of the variable LATEEN_ENVOY, or .tools/envoy of the checkout. Without one the test is skipped, unless
// LATEEN_ENVOY_REQUIRED is set.
func envoy(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a live test")
	}
	require.NoError(t, sources())
	path, err := filepath.Abs(realenvoy.Binary(t))
	require.NoError(t, err)
	return path
}
