package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/observe/debug"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// remote is the monitoring port of a running control plane.
type remote struct{ address string }

func (r *remote) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.address, "monitoring-address", "127.0.0.1:15014", "where the control plane serves /debug")
	hostPort(cmd.Flags(), "monitoring-address", &r.address)
}

// askTimeout bounds one request.
const askTimeout = 10 * time.Second

func (r *remote) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	u := url.URL{Scheme: "http", Host: r.address, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf(
			"nobody answers at %s: is a control plane running? Its address is --monitoring-address (%w)",
			r.address,
			errors.Unwrap(err),
		)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s", strings.TrimSpace(string(body)))
	}
	return body, nil
}

// problemLine is a problem in the output of status.
type problemLine struct {
	Severity  string `json:"severity"`
	Origin    string `json:"origin,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Path      string `json:"path,omitempty"`
	Value     string `json:"value,omitempty"`
	Message   string `json:"message"`
	Want      string `json:"want,omitempty"`
	Text      string `json:"text"`
}

// statusReport is the whole output of lateen status.
type statusReport struct {
	Proxies  []debug.SyncStatus `json:"proxies"`
	Problems []problemLine      `json:"problems"`
}

func newStatus(out *terminal.Writer) *cobra.Command {
	var r remote
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Each proxy, in sync or not, by type; what is wrong in the manifests",
		Example: `  lateen status
  lateen status -o json | jq '.problems'`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := askStatus(cmd.Context(), &r)
			if err != nil {
				return err
			}
			if output != "table" {
				return printAs(cmd.OutOrStdout(), output, report)
			}
			printStatus(out, report)
			return nil
		},
	}
	r.bind(cmd)
	bindOutput(cmd, &output)
	return cmd
}

func bindOutput(cmd *cobra.Command, output *string) {
	outputs := []string{"table", "json", "yaml"}
	cmd.Flags().StringVarP(output, "output", "o", outputs[0], alternatives(outputs))
	oneOf(cmd, "output", output, outputs...)
}

func askStatus(ctx context.Context, r *remote) (statusReport, error) {
	var report statusReport
	if err := r.read(ctx, "/debug/syncz", &report.Proxies); err != nil {
		return report, err
	}
	return report, r.read(ctx, "/debug/problems", &report.Problems)
}

// read decodes the JSON at a path.
func (r *remote) read(ctx context.Context, path string, into any) error {
	body, err := r.get(ctx, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s of %s: %w", path, r.address, err)
	}
	return nil
}

// printAs writes JSON or YAML.
func printAs(w io.Writer, format string, v any) error {
	var body []byte
	var err error
	switch format {
	case "yaml":
		body, err = yaml.Marshal(v)
	default:
		body, err = json.MarshalIndent(v, "", "  ")
		body = append(body, '\n')
	}
	if err != nil {
		return err
	}
	_, err = w.Write(body)
	return err
}

func printStatus(out *terminal.Writer, report statusReport) {
	types := shownTypes(report.Proxies)
	t := terminal.Table{Header: []string{"PROXY", "TYPE", "MTLS"}}
	for _, typ := range types {
		t.Header = append(t.Header, strings.ToUpper(typ.String()))
	}
	t.Header = append(t.Header, "CONFIG")
	for _, p := range report.Proxies {
		row := []terminal.Cell{{Text: p.ProxyID}, {Text: p.ProxyType}, mutualTLSCell(p.MutualTLS)}
		for _, typ := range types {
			row = append(row, stateCell(p.Resources[typ.URL()], p.Pending))
		}
		t.Rows = append(t.Rows, append(row, terminal.Cell{Text: formatBytes(int64(p.ConfigBytes))}))
	}
	out.Table(t)
	for _, p := range report.Proxies {
		for _, typ := range types {
			if text := refusal(p.Resources[typ.URL()]); text != "" {
				out.Paragraph("", terminal.Bad, fmt.Sprintf("%s refused %s: %s", p.ProxyID, typ, text))
			}
		}
	}
	if len(report.Problems) == 0 {
		out.Line("no problems in the manifests")
		return
	}
	out.Line("%s in the manifests:", formatCount(len(report.Problems), "problem", "problems"))
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
func shownTypes(proxies []debug.SyncStatus) (types []resource.Type) {
	for typ := range resource.NumTypes {
		switch typ {
		case resource.Cluster, resource.Endpoint, resource.Listener, resource.Route:
			types = append(types, typ)
		default:
			if slices.ContainsFunc(
				proxies, func(p debug.SyncStatus) bool { return p.Resources[typ.URL()].Type != "" },
			) {
				types = append(types, typ)
			}
		}
	}
	return types
}

// refusal returns a proxy's NACK message and what is withheld from it, or "" if it refused nothing.
func refusal(s debug.TypeStatus) string {
	switch names := strings.Join(s.Quarantined, ", "); {
	case names == "":
		return s.LastError
	case s.LastError == "":
		return "it keeps its last version of " + names
	default:
		return s.LastError + "; it keeps its last version of " + names
	}
}

func mutualTLSCell(m debug.MutualTLS) terminal.Cell {
	style := map[debug.MutualTLS]terminal.Style{
		debug.StrictMutualTLS: terminal.Good, debug.DisabledMutualTLS: terminal.Warn, debug.NoMutualTLS: terminal.Faint,
	}[m]
	return terminal.Cell{Text: cmp.Or(string(m), "-"), Style: style}
}

func stateCell(s debug.TypeStatus, pending bool) terminal.Cell {
	state := s.State
	if state == "" {
		state = debug.NotSent
	}
	if pending && state == debug.Synced {
		state = debug.Stale
	}
	style := map[debug.SyncState]terminal.Style{
		debug.Synced: terminal.Good, debug.Stale: terminal.Warn, debug.Nack: terminal.Bad,
		debug.NotSent: terminal.Faint,
	}[state]
	return terminal.Cell{Text: string(state), Style: style}
}
