package serve

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
)

// Request returns what istiod's image has as "pilot-discovery request". istioctl bug-report runs
// it in the control plane's container.
func Request() *cobra.Command {
	const flag = "monitoring-address"
	var address string
	cmd := &cobra.Command{
		Use:     "request GET PATH",
		Short:   "Ask the control plane that runs beside this for a page, as /debug/syncz",
		Example: `  lateen request GET debug/syncz`,
		Args: cobra.MatchAll(command.Arguments("GET", "PATH"), func(_ *cobra.Command, args []string) error {
			if args[0] != http.MethodGet {
				return fmt.Errorf("%q: want GET, since all pages are only read", args[0])
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := url.Parse("/" + strings.TrimPrefix(args[1], "/"))
			if err != nil {
				return fmt.Errorf("the path %q: %w; want one as debug/syncz", args[1], err)
			}
			body, err := page.At(address).Get(cmd.Context(), at.Path, at.Query())
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(body)
			return err
		},
	}
	cmd.Flags().StringVar(&address, flag, "127.0.0.1:15014", "where the control plane serves /debug")
	command.HostPort(cmd.Flags(), flag, &address)
	return cmd
}
