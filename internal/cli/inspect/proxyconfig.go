package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// envoyAdminPort is where the Envoy of a Pod serves its admin pages, on loopback.
const envoyAdminPort = 15000

// proxyConfigFlags say which configuration is shown, and how.
type proxyConfigFlags struct {
	remote *remote.Remote
	output string
	file   string
	live   bool
	at     string
	filter rowFilter
}

// ProxyConfig returns the command proxy-config.
func ProxyConfig(out *terminal.Writer) *cobra.Command {
	return proxyConfigCommand(out, &remote.Remote{})
}

func proxyConfigCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	f := proxyConfigFlags{remote: r}
	kinds := configKinds()
	cmd := &cobra.Command{
		Use:     "proxy-config PROXY " + strings.Join(kinds, "|"),
		Aliases: []string{"pc"},
		Short:   "What a proxy was given: clusters, listeners, routes, endpoints and the like",
		Long: `Shows what the control plane gives to a proxy, or with --live what its Envoy says it has.
The two arguments may stand in either order, and the kind in the singular, as with istioctl. PROXY is
POD.NAMESPACE, or a part of it that fits one proxy.

Secrets and the bootstrap are Envoy's own, so they are asked of the Envoy: in a cluster, through a
port-forward to port 15000 of its Pod. Elsewhere of the secrets only the names are known. Private keys
are never shown.`,
		Example: `  lateen proxy-config productpage-v1-7c9d8f6b5-x2x4q.default routes
  lateen pc cluster productpage --fqdn reviews.default.svc.cluster.local --direction outbound
  lateen proxy-config productpage clusters -o json
  lateen proxy-config listeners --file config_dump.json
  lateen proxy-config productpage routes --at 14:02`,
		Args:              func(cmd *cobra.Command, args []string) error { return f.arguments(cmd, args) },
		ValidArgsFunction: f.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, proxy := kindAndProxy(args)
			dump, err := f.dump(cmd, kind, proxy)
			if err != nil {
				return err
			}
			return f.print(cmd, out, kind, dump)
		},
	}
	r.Bind(cmd)
	command.BindOutput(cmd, &f.output)
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "a config dump of Envoy in place of a proxy; - is the standard input")
	flags.BoolVar(&f.live, "live", false, "what the proxy's Envoy has, through a port-forward to its Pod")
	flags.StringVar(&f.at, "at", "", "what it was given then: a duration ago (1h), a time (14:02) or RFC 3339")
	flags.StringVar(&f.filter.host, "fqdn", "", "only what is about this host")
	flags.IntVar(&f.filter.port, "port", 0, "only what is about this port")
	flags.StringVar(&f.filter.direction, "direction", "", "only what is inbound or outbound")
	command.OneOf(cmd, "direction", &f.filter.direction, "inbound", "outbound")
	command.ValidateFlag(flags, "port", func() error {
		if f.filter.port < 1 || f.filter.port > 65535 {
			return errors.New("want a port from 1 to 65535")
		}
		return nil
	})
	_ = cmd.MarkFlagFilename("file")
	cmd.MarkFlagsMutuallyExclusive("file", "live", "at")
	return cmd
}

// arguments requires a kind and a proxy in any order, or a kind alone with --file.
func (f *proxyConfigFlags) arguments(cmd *cobra.Command, args []string) error {
	kinds := strings.Join(configKinds(), "|")
	if f.file != "" && len(args) == 1 && kindOf(args[0]) != "" {
		return nil
	}
	if err := command.Arguments("PROXY", kinds)(cmd, args); err != nil {
		return err
	}
	if kind, _ := kindAndProxy(args); kind == "" {
		return fmt.Errorf("%q: want one of %s", args[1], strings.Join(configKinds(), ", "))
	}
	return nil
}

// kindAndProxy tells the two arguments apart.
func kindAndProxy(args []string) (kind, proxy string) {
	if len(args) == 1 {
		return kindOf(args[0]), ""
	}
	if kind := kindOf(args[0]); kind != "" {
		return kind, args[1]
	}
	return kindOf(args[1]), args[0]
}

func (f *proxyConfigFlags) complete(
	cmd *cobra.Command, args []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	kinds := configKinds()
	switch {
	case len(args) == 0:
		return append(connected(f.remote, cmd), kinds...), cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && kindOf(args[0]) != "":
		return connected(f.remote, cmd), cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1:
		return kinds, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// dump returns the config dump that the flags name.
func (f *proxyConfigFlags) dump(cmd *cobra.Command, kind, proxy string) (*configDump, error) {
	body, err := f.body(cmd, kind, proxy)
	if err != nil {
		return nil, err
	}
	return readDump(body)
}

func (f *proxyConfigFlags) body(cmd *cobra.Command, kind, proxy string) ([]byte, error) {
	ctx := cmd.Context()
	switch f.file {
	case "":
	case "-":
		return io.ReadAll(cmd.InOrStdin())
	default:
		return os.ReadFile(f.file)
	}
	at, p, err := proxyNamed(ctx, f.remote, proxy)
	if err != nil {
		return nil, err
	}
	ownsOnly := kind == kindBootstrap || kind == kindSecrets
	if f.at != "" && kind == kindBootstrap {
		return nil, errors.New("of a bootstrap nothing is remembered; want another kind, or no --at")
	}
	if f.live || ownsOnly && at.Cluster != nil && f.at == "" {
		return envoyDump(ctx, at, p)
	}
	if kind == kindBootstrap {
		return nil, errors.New("only the proxy knows its bootstrap; want a proxy in a cluster (--kubeconfig FILE), " +
			"or a dump of its admin port with --file (curl 127.0.0.1:15000/config_dump)")
	}
	query := url.Values{"proxyID": {p.ProxyID}}
	if f.at != "" {
		then, err := pastOf(f.at)
		if err != nil {
			return nil, fmt.Errorf("--at: %w", err)
		}
		query.Set(page.ConfigAt, then)
	}
	return at.Fetch(ctx, page.Path(page.Dump), query)
}

// envoyDump asks the Envoy of a proxy's Pod.
func envoyDump(ctx context.Context, at remote.Endpoint, p proxyLine) ([]byte, error) {
	if at.Cluster == nil {
		return nil, fmt.Errorf("the Envoy of %s can be asked in a cluster alone; want --kubeconfig FILE, or a dump of "+
			"its admin port with --file", p.ProxyID)
	}
	pod := strings.TrimSuffix(p.ProxyID, "."+p.Namespace)
	admin := remote.InPod(at.Cluster, p.Namespace, pod, envoyAdminPort)
	return admin.Fetch(ctx, "/config_dump", url.Values{"include_eds": {""}})
}

// connected returns the names of connected proxies for completion in a shell, or none on errors.
func connected(r *remote.Remote, cmd *cobra.Command) []string {
	report, err := askStatus(cmd.Context(), r)
	if err != nil {
		return nil
	}
	var ids []string
	for _, p := range report.Proxies {
		ids = append(ids, p.ProxyID)
	}
	return ids
}

// proxyNamed returns the only connected proxy whose name is or contains the given one, and the
// replica that serves it.
func proxyNamed(ctx context.Context, r *remote.Remote, name string) (remote.Endpoint, proxyLine, error) {
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		return remote.Endpoint{}, proxyLine{}, err
	}
	report, err := statusOf(ctx, endpoints)
	if err != nil {
		return remote.Endpoint{}, proxyLine{}, err
	}
	p, err := report.proxyNamed(name)
	if err != nil {
		return remote.Endpoint{}, proxyLine{}, err
	}
	at := slices.IndexFunc(endpoints, func(e remote.Endpoint) bool { return e.Name == p.Replica })
	return endpoints[at], p, nil
}

// proxyNamed returns the only proxy whose name is or contains the given one. Of a proxy with
// several streams it returns the latest.
func (s *statusReport) proxyNamed(name string) (proxyLine, error) {
	fits, all := map[string]proxyLine{}, map[string]proxyLine{}
	for _, p := range s.Proxies {
		if known, ok := all[p.ProxyID]; ok && known.ConnectedAt.After(p.ConnectedAt) {
			continue
		}
		all[p.ProxyID] = p
		if strings.Contains(p.ProxyID, name) {
			fits[p.ProxyID] = p
		}
	}
	if p, ok := all[name]; ok {
		return p, nil
	}
	var err error
	switch {
	case len(fits) == 1:
		for _, p := range fits {
			return p, nil
		}
	case len(all) == 0:
		err = errors.New("no proxy is connected")
	case len(fits) == 0:
		err = fmt.Errorf("no proxy %q is connected; want one of %s", name, someNames(all))
	default:
		err = fmt.Errorf("%q fits several proxies; want one of %s", name, someNames(fits))
	}
	for _, r := range s.Replicas {
		if r.Error != "" {
			err = fmt.Errorf("%w; replica %s could not be asked: %s", err, r.Name, r.Error)
		}
	}
	return proxyLine{}, err
}

// someNames lists names, 20 at most.
func someNames(of map[string]proxyLine) string {
	const shown = 20
	sorted := slices.Sorted(maps.Keys(of))
	if len(sorted) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(sorted[:shown], ", "), len(sorted)-shown)
	}
	return strings.Join(sorted, ", ")
}

func (f *proxyConfigFlags) print(cmd *cobra.Command, out *terminal.Writer, kind string, dump *configDump) error {
	if kind == kindAll {
		return f.printAll(cmd, out, dump)
	}
	table, resources := dump.section(kind, f.filter)
	dump.tellForgotten(cmd)
	if f.output == "table" {
		out.Table(table)
		if len(table.Rows) == 0 && kind == kindSecrets {
			out.Line("the control plane has given it no secrets: the certificate of the mesh comes from its agent")
		}
		return nil
	}
	return command.PrintAs(cmd.OutOrStdout(), f.output, resources)
}

func (f *proxyConfigFlags) printAll(cmd *cobra.Command, out *terminal.Writer, dump *configDump) error {
	all := map[string][]any{}
	dump.tellForgotten(cmd)
	for _, s := range sections() {
		table, resources := dump.section(s.kind, f.filter)
		all[s.kind] = resources
		if f.output == "table" && len(table.Rows) > 0 {
			out.Table(table)
			out.Line("")
		}
	}
	if f.output == "table" {
		return nil
	}
	return command.PrintAs(cmd.OutOrStdout(), f.output, all)
}
