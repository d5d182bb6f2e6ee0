package apiserver

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

// outage is how long the API server stays away.
var outage = flag.Duration("outage", 3*time.Second, "how long the API server stays away")

// binary is the lateen that the tests run.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lateen-apiserver-")
	if err == nil {
		binary, err = lateenserve.Build(dir, lateenserve.AsTests()...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leak.Run(m.Run)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
