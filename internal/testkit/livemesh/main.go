package livemesh

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/lateen-mesh/lateen/internal/local/sample"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

// Main is for a package's TestMain: it runs the tests and then looks for goroutines that they left.
// When the runtime started the test binary as a container of the image lateen/sample, it plays that
// instead.
func Main(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "sample" {
		if err := PlaySample(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.Main(m)
}

// PlaySample is the program of the image lateen/sample, with its arguments, until SIGTERM.
func PlaySample(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var o sample.Options
	flags := flag.NewFlagSet("sample", flag.ContinueOnError)
	o.Bind(flags, os.Getenv)
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.Log = os.Stderr
	return sample.Run(ctx, o, nil)
}
