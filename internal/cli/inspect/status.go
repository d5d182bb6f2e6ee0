package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// replicaLine is a replica that was asked.
type replicaLine struct {
	Name  string `json:"name"`
	Error string `json:"error,omitempty"`
}

// proxyLine is a proxy in the output of status, and the replica that serves it.
type proxyLine struct {
	page.SyncStatus
	Replica string `json:"replica"`
}

// statusReport is the whole output of lateen status.
type statusReport struct {
	Replicas []replicaLine  `json:"replicas"`
	Proxies  []proxyLine    `json:"proxies"`
	Problems []page.Problem `json:"problems"`
}

// Status returns the command status.
func Status(out *terminal.Writer) *cobra.Command { return statusCommand(out, &remote.Remote{}) }

func statusCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Each proxy, in sync or not, by type; what is wrong in the manifests",
		Long: `Asks all replicas of a control plane together: in a cluster through port-forwards, or the one at
an address. The exit code is 1 if a replica does not answer.`,
		Example: `  lateen status
  lateen status --kubeconfig ~/.kube/config --revision canary
  lateen status -o json | jq '.problems'`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := askStatus(cmd.Context(), r)
			if err != nil {
				return err
			}
			if output == "table" {
				printStatus(out, report)
			} else if err := command.PrintAs(cmd.OutOrStdout(), output, report); err != nil {
				return err
			}
			return report.incomplete()
		},
	}
	r.Bind(cmd)
	command.BindOutput(cmd, &output)
	return cmd
}

// askStatus asks all replicas. It fails if none answers; what is missing of others the report says.
func askStatus(ctx context.Context, r *remote.Remote) (statusReport, error) {
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		return statusReport{}, err
	}
	return statusOf(ctx, endpoints)
}

func statusOf(ctx context.Context, endpoints []remote.Endpoint) (statusReport, error) {
	answers, errs := remote.EachOf(endpoints, func(e remote.Endpoint) (statusReport, error) {
		proxies, err := remote.Read[[]proxyLine](ctx, e, page.Sync, nil)
		if err != nil {
			return statusReport{}, err
		}
		problems, err := remote.Read[[]page.Problem](ctx, e, page.Problems, nil)
		return statusReport{Proxies: proxies, Problems: problems}, err
	})
	report := statusReport{Proxies: []proxyLine{}, Problems: []page.Problem{}}
	failed := 0
	told := map[page.Problem]bool{} // replicas read the same objects
	for i, part := range answers {
		line := replicaLine{Name: endpoints[i].Name}
		if errs[i] != nil {
			failed++
			line.Error = errs[i].Error()
		}
		report.Replicas = append(report.Replicas, line)
		for _, p := range part.Proxies {
			p.Replica = line.Name
			report.Proxies = append(report.Proxies, p)
		}
		for _, p := range part.Problems {
			if !told[p] {
				told[p] = true
				report.Problems = append(report.Problems, p)
			}
		}
	}
	if failed == len(endpoints) {
		return report, errors.Join(errs...)
	}
	slices.SortStableFunc(report.Proxies, func(a, b proxyLine) int { return cmp.Compare(a.ProxyID, b.ProxyID) })
	return report, nil
}

// incomplete returns command.ErrFailed if a replica has not answered.
func (s *statusReport) incomplete() error {
	for _, r := range s.Replicas {
		if r.Error != "" {
			return command.ErrFailed
		}
	}
	return nil
}

func printStatus(out *terminal.Writer, report statusReport) {
	types := shownTypes(report.Proxies)
	t := terminal.Table{Header: []string{"PROXY", "TYPE", "MTLS"}}
	for _, typ := range types {
		t.Header = append(t.Header, strings.ToUpper(typ.String()))
	}
	t.Header = append(t.Header, "CONFIG")
	replicas := len(report.Replicas) > 1
	if replicas {
		t.Header = append(t.Header, "REPLICA")
	}
	for _, p := range report.Proxies {
		row := []terminal.Cell{{Text: p.ProxyID}, {Text: p.ProxyType}, mutualTLSCell(p.MutualTLS)}
		for _, typ := range types {
			row = append(row, stateCell(p.Resources[typ.URL()], p.Pending))
		}
		row = append(row, terminal.Cell{Text: terminal.Bytes(int64(p.ConfigBytes))})
		if replicas {
			row = append(row, terminal.Cell{Text: p.Replica})
		}
		t.Rows = append(t.Rows, row)
	}
	out.Table(t)
	for _, r := range report.Replicas {
		if r.Error != "" {
			out.Paragraph("", terminal.Bad, fmt.Sprintf("replica %s: %s", r.Name, r.Error))
		}
	}
	for _, p := range report.Proxies {
		for _, typ := range types {
			if text := refusal(p.Resources[typ.URL()]); text != "" {
				out.Paragraph("", terminal.Bad, fmt.Sprintf("%s refused %s: %s", p.ProxyID, typ, text))
			}
		}
	}
	if len(report.Problems) == 0 {
		out.Line("no problems in the mesh's objects")
		return
	}
	out.Line("%s in the mesh's objects:", terminal.Count(len(report.Problems), "problem", "problems"))
	for _, p := range report.Problems {
		style := terminal.Warn
		if p.Severity == "error" {
			style = terminal.Bad
		}
		out.Paragraph("  ", style, p.Text)
	}
}

// shownTypes returns the types that every proxy has, and those that at least one proxy has
// subscribed to: LEDS, VHDS, secrets.
func shownTypes(proxies []proxyLine) (types []resource.Type) {
	for typ := range resource.NumTypes {
		switch typ {
		case resource.Cluster, resource.Endpoint, resource.Listener, resource.Route:
			types = append(types, typ)
		default:
			if slices.ContainsFunc(
				proxies, func(p proxyLine) bool { return p.Resources[typ.URL()].Type != "" },
			) {
				types = append(types, typ)
			}
		}
	}
	return types
}

// refusal returns a proxy's NACK message and what is withheld from it, or "" if it refused nothing.
func refusal(s page.TypeStatus) string {
	switch names := strings.Join(s.Quarantined, ", "); {
	case names == "":
		return s.LastError
	case s.LastError == "":
		return "it keeps its last version of " + names
	default:
		return s.LastError + "; it keeps its last version of " + names
	}
}

func mutualTLSCell(m page.MutualTLS) terminal.Cell {
	style := map[page.MutualTLS]terminal.Style{
		page.StrictMutualTLS: terminal.Good, page.DisabledMutualTLS: terminal.Warn, page.NoMutualTLS: terminal.Faint,
	}[m]
	return terminal.Cell{Text: cmp.Or(string(m), "-"), Style: style}
}

func stateCell(s page.TypeStatus, pending bool) terminal.Cell {
	state := s.State
	if state == "" {
		state = page.NotSent
	}
	if pending && state == page.Synced {
		state = page.Stale
	}
	style := map[page.SyncState]terminal.Style{
		page.Synced: terminal.Good, page.Stale: terminal.Warn, page.Nack: terminal.Bad,
		page.NotSent: terminal.Faint,
	}[state]
	return terminal.Cell{Text: string(state), Style: style}
}
