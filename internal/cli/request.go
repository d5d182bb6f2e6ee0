package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// newRequest returns what istiod's image has as "pilot-discovery request". istioctl bug-report runs
// it in the control plane's container.
func newRequest() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:     "request GET PATH",
		Short:   "Ask the control plane that runs beside this for a page, as /debug/syncz",
		Example: `  lateen request GET debug/syncz`,
		Args: cobra.MatchAll(arguments("GET", "PATH"), func(_ *cobra.Command, args []string) error {
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
			body, err := atAddress(address).get(cmd.Context(), at.Path, at.Query())
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(body)
			return err
		},
	}
	cmd.Flags().StringVar(&address, flagMonitoring, localMonitoring, "where the control plane serves /debug")
	hostPort(cmd.Flags(), flagMonitoring, &address)
	return cmd
}
