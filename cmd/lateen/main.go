// Command lateen is the whole product in one binary: the control plane (serve), a mesh on this
// machine (up), and the tools to look at both and to measure.
package main

import (
	"os"

	"github.com/lateen-mesh/lateen/internal/cli"
)

func main() { os.Exit(cli.Main()) }
