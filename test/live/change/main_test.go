package change

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

// binary is the lateen that the tests run: that of the variable LATEEN_BINARY, or one built for
// this run.
var binary string

func TestMain(m *testing.M) {
	os.Exit(lateenserve.Main(func(dir string) (err error) {
		binary, err = build(dir)
		return err
	}, func() int { return leak.Run(m.Run) }))
}

func build(dir string) (string, error) {
	if path := os.Getenv("LATEEN_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	return lateenserve.BuildCommands(dir, lateenserve.AsTests()...)
}

// envoy is the Envoy of the variable LATEEN_ENVOY, or .tools/envoy of the checkout. Without one the
// test is skipped, unless LATEEN_ENVOY_REQUIRED is set.
func envoy(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a live test")
	}
	lateenserve.LookAtSources(t)
	path, err := filepath.Abs(realenvoy.Binary(t))
	require.NoError(t, err)
	return path
}
