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
an address. SYNC names the types that are not in sync. With -o wide each type has a column, and
replicas have their whole names. The exit code is 1 if a replica does not answer.`,
		Example: `  lateen status
  lateen status -o wide
  lateen status --kubeconfig ~/.kube/config --revision canary
  lateen status -o json | jq '.problems'`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := askStatus(cmd.Context(), r)
			if err != nil {
				return err
			}
			if output == "table" || output == wideOutput {
				printStatus(out, report, output == wideOutput)
			} else if err := command.PrintAs(cmd.OutOrStdout(), output, report); err != nil {
				return err
			}
			return report.incomplete()
		},
	}
	r.Bind(cmd)
	command.BindOutput(cmd, &output, wideOutput)
	return cmd
}

// wideOutput is a table with a column for each type.
const wideOutput = "wide"

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

func printStatus(out *terminal.Writer, report statusReport, wide bool) {
	types := shownTypes(report.Proxies)
	out.Table(proxyTable(report, types, wide))
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

// proxyTable has a row for each proxy. If it is wide, each type has a column.
func proxyTable(report statusReport, types []resource.Type, wide bool) terminal.Table {
	header := []string{"PROXY", "TYPE", "MTLS"}
	if !wide {
		header = append(header, "SYNC")
	}
	for _, typ := range types {
		if wide {
			header = append(header, strings.ToUpper(typ.String()))
		}
	}
	header = append(header, "CONFIG")
	replicas, same := len(report.Replicas) > 1, ""
	if replicas {
		header = append(header, "REPLICA")
	}
	if !wide {
		same = sameBeginning(report.Replicas)
	}
	t := terminal.Table{Header: header}
	for _, p := range report.Proxies {
		row := []terminal.Cell{{Text: p.ProxyID}, {Text: p.ProxyType}, mutualTLSCell(p.MutualTLS)}
		if !wide {
			row = append(row, syncCell(p, types))
		}
		for _, typ := range types {
			if wide {
				row = append(row, stateCell(p.stateOf(typ)))
			}
		}
		row = append(row, terminal.Cell{Text: terminal.Bytes(int64(p.ConfigBytes))})
		if replicas {
			row = append(row, terminal.Cell{Text: withoutBeginning(p.Replica, same)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// withoutBeginning returns a name with an ellipsis for what all begin with.
func withoutBeginning(name, same string) string {
	if same == "" {
		return name
	}
	return "…" + strings.TrimPrefix(name, same)
}

// sameBeginning returns what the names of all replicas begin with, up to the last dash, if they are
// Pods of one ReplicaSet ("istiod-7c9d8f6b5-").
func sameBeginning(replicas []replicaLine) string {
	if len(replicas) == 0 {
		return ""
	}
	same := replicas[0].Name
	for _, r := range replicas {
		for !strings.HasPrefix(r.Name, same) {
			same = same[:len(same)-1]
		}
	}
	if strings.Count(same, "-") < 2 {
		return ""
	}
	return same[:strings.LastIndex(same, "-")+1]
}

// shownTypes returns the types that every proxy has, and those that at least one proxy has
// subscribed to: LEDS, VHDS, secrets.
func shownTypes(proxies []proxyLine) (types []resource.Type) {
	for typ := range resource.NumTypes {
		if isOfAll(typ) || slices.ContainsFunc(proxies, func(p proxyLine) bool { return p.asksFor(typ) }) {
			types = append(types, typ)
		}
	}
	return types
}

// isOfAll reports whether every proxy asks for a type sooner or later.
func isOfAll(typ resource.Type) bool {
	switch typ {
	case resource.Cluster, resource.Endpoint, resource.Listener, resource.Route:
		return true
	default:
		return false
	}
}

// asksFor reports whether the proxy has subscribed to a type.
func (p *proxyLine) asksFor(typ resource.Type) bool { return p.Resources[typ.URL()].Type != "" }

// stateOf returns how a proxy stands in a type.
func (p *proxyLine) stateOf(typ resource.Type) page.SyncState {
	state := cmp.Or(p.Resources[typ.URL()].State, page.NotSent)
	if p.Pending && state == page.Synced {
		return page.Stale
	}
	return state
}

// syncCell says in one word how a proxy stands, or which types are not in sync: "NACK: VHDS". Types
// that it has not asked for count where every proxy has them.
func syncCell(p proxyLine, types []resource.Type) terminal.Cell {
	names, all := map[page.SyncState][]string{}, 0
	for _, typ := range types {
		if isOfAll(typ) || p.asksFor(typ) {
			names[p.stateOf(typ)] = append(names[p.stateOf(typ)], strings.ToUpper(typ.String()))
			all++
		}
	}
	cell := stateCell(page.Synced)
	var parts []string
	for _, state := range []page.SyncState{page.Nack, page.Stale, page.NotSent} { // the worst first
		if len(names[state]) == all {
			return stateCell(state)
		}
		if len(names[state]) > 0 {
			if parts == nil {
				cell = stateCell(state)
			}
			parts = append(parts, string(state)+": "+strings.Join(names[state], ", "))
		}
	}
	if parts != nil {
		cell.Text = strings.Join(parts, "; ")
	}
	return cell
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

func stateCell(state page.SyncState) terminal.Cell {
	style := map[page.SyncState]terminal.Style{
		page.Synced: terminal.Good, page.Stale: terminal.Warn, page.Nack: terminal.Bad,
		page.NotSent: terminal.Faint,
	}[state]
	return terminal.Cell{Text: string(state), Style: style}
}
