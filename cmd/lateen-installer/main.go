// Command lateen-installer carries out those commands of lateen that render charts: manifest,
// install and their like. lateen runs it; people need not.
package main

import (
	"os"

	"github.com/lateen-mesh/lateen/internal/cli/installer"
)

func main() { os.Exit(installer.Main()) }
