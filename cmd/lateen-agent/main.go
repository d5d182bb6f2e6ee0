// Command lateen-agent runs Envoy in a Pod of the mesh, and what stands beside it. It takes the
// commands, flags and variables of Istio's pilot-agent.
package main

import (
	"os"

	"github.com/lateen-mesh/lateen/internal/agent/command"
)

func main() { os.Exit(command.Main()) }
