package cluster

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

// outage is for how long the API server stays away, or for longer, until there were enough
// requests.
var outage = flag.Duration("outage", 0, "how long the API server stays away, at least")

// TestMain lets the test binary be the programs of pods too.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == podnet.InitCommand:
		err = podnet.Init(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "sample":
		err = livemesh.PlaySample(os.Args[2:])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
