// Command ratelimit is Envoy's rate limit service (github.com/envoyproxy/ratelimit) with a Redis of
// its own in it, for tests of global rate limits. It takes its settings from the environment, as
// there: RUNTIME_ROOT, GRPC_PORT, …. It stands in a Go module of its own because of what it links;
// hack/build-tool.sh builds it.
package main

import (
	"fmt"
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until a signal ends it.
func run() error {
	redis, err := miniredis.Run()
	if err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}
	defer redis.Close()
	of := settings.NewSettings()
	of.RedisSocketType, of.RedisUrl = "tcp", redis.Addr()
	server := runner.NewRunner(of)
	server.Run()
	return nil
}
