package apiserver

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

// outage is how long the API server stays away.
var outage = flag.Duration("outage", 3*time.Second, "how long the API server stays away")

// binary is lateen-discovery, and commands is lateen.
var binary, commands string

func TestMain(m *testing.M) {
	os.Exit(lateenserve.Main(func(dir string) (err error) {
		if binary, err = lateenserve.Build(dir, lateenserve.AsTests()...); err != nil {
			return err
		}
		commands, err = lateenserve.BuildCommands(dir)
		return err
	}, func() int { return leak.Run(m.Run) }))
}
