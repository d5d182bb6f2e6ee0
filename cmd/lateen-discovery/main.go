// Command lateen-discovery is the control plane alone, as servers run it. People run lateen, which
// has it too (lateen serve), with a mesh on this machine and the tools to look at both.
package main

import (
	"os"

	"github.com/lateen-mesh/lateen/internal/cli/discovery"
)

func main() { os.Exit(discovery.Main()) }
