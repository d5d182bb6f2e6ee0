package perf

import (
	"os"
	"slices"
	"testing"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/serve"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

// TestMain lets the test binary be the program where a test starts it as such.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{perfServer, perfApart, "serve"}, os.Args[1]) {
		os.Exit(command.Main(console.Root(ControlPlane(), Sidecars(), serve.Command())))
	}
	leak.Main(m)
}
