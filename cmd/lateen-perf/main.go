// Command lateen-perf carries out those commands of lateen perf that send requests or draw reports:
// lateen perf data-plane, lab, app and report. lateen runs it; people need not.
package main

import (
	"os"

	"github.com/lateen-mesh/lateen/internal/cli/loadtest"
)

func main() { os.Exit(loadtest.Main()) }
