package inspect

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// clientVersion is the version of this program.
type clientVersion struct {
	Version  string `json:"version"`
	IstioAPI string `json:"istioAPI"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// replicaVersion is the version of a replica of the control plane.
type replicaVersion struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`
}

// proxyVersions are the connected proxies that say they have a version.
type proxyVersions struct {
	Version string `json:"version"`
	Proxies int    `json:"proxies"`
}

// versionReport is the whole output of lateen version.
type versionReport struct {
	Client       clientVersion    `json:"client"`
	ControlPlane []replicaVersion `json:"controlPlane,omitempty"`
	DataPlane    []proxyVersions  `json:"dataPlane,omitempty"`
	// Missing says why there is no control plane.
	Missing string `json:"missing,omitempty"`
}

// Version returns the command version.
func Version(out *terminal.Writer) *cobra.Command { return versionCommand(out, &remote.Remote{}) }

func versionCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	var output string
	var clientOnly bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "The versions of this program, of each control plane replica, and of the proxies",
		Long: `Without a control plane it prints its own version, says why there is no other, and the exit code
is 0. The exit code is 1 if a control plane is asked for by a flag, or a replica is found, and does not
answer.`,
		Example: `  lateen version
  lateen version --client
  lateen version -o json`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report := versionReport{Client: clientVersion{
				Version: build.Version, IstioAPI: build.IstioAPI, Go: runtime.Version(),
				Platform: runtime.GOOS + "/" + runtime.GOARCH,
			}}
			var failed error
			if !clientOnly {
				failed = report.ask(cmd.Context(), r)
			}
			if output == "table" {
				report.print(out)
			} else if err := command.PrintAs(cmd.OutOrStdout(), output, report); err != nil {
				return err
			}
			return failed
		},
	}
	r.Bind(cmd)
	command.BindOutput(cmd, &output)
	cmd.Flags().BoolVar(&clientOnly, "client", false, "ask no control plane")
	return cmd
}

// ask adds the versions of a control plane and its proxies.
func (v *versionReport) ask(ctx context.Context, r *remote.Remote) error {
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		v.Missing = err.Error()
		if r.Flag(append(r.ClusterFlags(), remote.FlagMonitoring)...) {
			return command.ErrFailed
		}
		return nil
	}
	answers, errs := remote.EachOf(endpoints, func(e remote.Endpoint) (string, error) {
		body, err := e.Fetch(ctx, "/version", nil)
		return string(body), err
	})
	var failed error
	for i, e := range endpoints {
		line := replicaVersion{Name: e.Name, Version: answers[i]}
		if errs[i] != nil {
			line.Error, failed = errs[i].Error(), command.ErrFailed
		}
		v.ControlPlane = append(v.ControlPlane, line)
	}
	report, err := statusOf(ctx, endpoints)
	if err != nil {
		return command.ErrFailed // the lines of the replicas say why
	}
	count := map[string]int{}
	for _, p := range report.Proxies {
		count[cmp.Or(p.ProxyVersion, "unknown")]++
	}
	for version, n := range count {
		v.DataPlane = append(v.DataPlane, proxyVersions{version, n})
	}
	slices.SortFunc(v.DataPlane, func(a, b proxyVersions) int { return cmp.Compare(a.Version, b.Version) })
	return failed
}

func (v *versionReport) print(out *terminal.Writer) {
	out.Line("client: %s (Istio API %s, %s, %s)", v.Client.Version, v.Client.IstioAPI, v.Client.Go, v.Client.Platform)
	if v.Missing != "" {
		out.Paragraph("control plane: ", terminal.Warn, v.Missing)
	}
	for _, r := range v.ControlPlane {
		if r.Error != "" {
			out.Paragraph(fmt.Sprintf("control plane %s: ", r.Name), terminal.Bad, r.Error)
			continue
		}
		out.Line("control plane %s: %s", r.Name, r.Version)
	}
	for _, p := range v.DataPlane {
		out.Line("proxies: %s (%s)", p.Version, terminal.Count(p.Proxies, "proxy", "proxies"))
	}
}
