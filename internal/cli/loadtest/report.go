package loadtest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"fortio.org/fortio/ui"
	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/htmlreport"
)

func newReport(out *terminal.Writer) *cobra.Command {
	var serve bool
	var address string
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Draw the reports of a directory as one HTML file, versions side by side",
		Long: `Reads all JSON files of a directory (of --report, or of -o json) and writes index.html beside
them: one file with charts, which fetches nothing. Reports of one setup are side by side, so several
versions are compared by putting their files into one directory. With --serve Fortio's report browser
shows DIR/fortio, which lateen perf data-plane has written.`,
		Example: `  lateen perf report results
  lateen perf report results --serve    # Fortio's report browser, until Ctrl-C`,
		Args: command.Arguments("DIR"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := htmlreport.Write(args[0])
			if err != nil {
				return err
			}
			out.Line("%s", path)
			if !serve {
				return nil
			}
			if err := browse(filepath.Join(args[0], fortioDir), address); err != nil {
				return err
			}
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().BoolVar(&serve, "serve", false, "start Fortio's report browser")
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:8088", "with --serve: where it listens")
	command.ValidateFlag(cmd.Flags(), "address", func() error {
		_, port, err := net.SplitHostPort(address)
		if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
			return errors.New("want HOST:PORT, as 127.0.0.1:8088")
		}
		return nil
	})
	return cmd
}

// browse starts Fortio's report browser for a directory of its results. It prints its address.
func browse(dir, address string) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("no results in Fortio's format: want what lateen perf data-plane --report DIR writes: %w",
			err)
	}
	if !ui.Report("", address, dir) {
		return fmt.Errorf("--address %s: cannot be opened; want a free port", address)
	}
	return nil
}
