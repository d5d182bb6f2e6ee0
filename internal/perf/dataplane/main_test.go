package dataplane

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"fortio.org/log"

	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

// TestMain plays the server that pods run.
func TestMain(m *testing.M) {
	log.SetLogLevelQuiet(log.Error)
	if len(os.Args) > 3 && os.Args[1] == "server" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := traffic.Serve(ctx, os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
