// Command lateen is the control plane (serve), a mesh on this machine (up), and the tools to look
// at both. It runs lateen-installer to render charts and lateen-perf to send requests; lateen-agent
// stands beside Envoy.
package main

import (
	"os"

	"github.com/lateen-mesh/lateen/internal/cli"
)

func main() { os.Exit(cli.Main()) }
