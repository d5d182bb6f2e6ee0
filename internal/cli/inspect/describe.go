package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// described is the output of lateen describe: what the mesh knows, and of a Pod its proxy.
type described struct {
	page.Description
	Proxy *proxyLine `json:"proxy,omitempty"`
}

// Describe returns the command describe, with those below it.
func Describe(out *terminal.Writer) *cobra.Command { return describeCommand(out, &remote.Remote{}) }

func describeCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe",
		Short: "What applies to a Pod or a service: policies, routes, mutual TLS, problems",
		Example: `  lateen describe pod productpage-v1-7c9d8f6b5-x2x4q.shop
  lateen describe service reviews.shop -o json`,
	}
	cmd.AddCommand(
		describeKind(out, r, &cobra.Command{
			Use: "pod NAME[.NAMESPACE]", Aliases: []string{"po"},
			Short: "Its services, the policies for it, its mutual TLS and its proxy",
			Example: `  lateen describe pod productpage-v1-7c9d8f6b5-x2x4q.shop
  lateen describe pod web-0 -o yaml`,
		}),
		describeKind(out, r, &cobra.Command{
			Use: "service NAME[.NAMESPACE]", Aliases: []string{"svc"},
			Short: "Its ports, endpoints, routes and DestinationRules, and the mutual TLS of its Pods",
			Example: `  lateen describe service reviews.shop
  lateen describe service reviews -o json`,
		}),
	)
	return cmd
}

// describeKind completes the command for one kind, which is its name.
func describeKind(out *terminal.Writer, r *remote.Remote, cmd *cobra.Command) *cobra.Command {
	own := *r
	var output string
	kind := cmd.Name()
	cmd.Long = cmd.Short + ". Without a namespace it is default. The exit code is 1 if the mesh knows no such " + kind +
		"."
	cmd.Args = command.Arguments("NAME[.NAMESPACE]")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if kind != "pod" || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return connected(&own, cmd), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, namespace := splitName(args[0])
		d, err := describe(cmd.Context(), &own, kind, cmp.Or(namespace, "default"), name)
		if err != nil {
			return err
		}
		if output != "table" {
			return command.PrintAs(cmd.OutOrStdout(), output, d)
		}
		d.print(out)
		return nil
	}
	own.Bind(cmd)
	command.BindOutput(cmd, &output)
	return cmd
}

// describe asks the first replica that answers: all know the same objects. Of a Pod it looks at all
// for the proxy.
func describe(ctx context.Context, r *remote.Remote, kind, namespace, name string) (*described, error) {
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	var d described
	for _, e := range endpoints {
		q := page.ObjectQuestion{Kind: kind, Namespace: namespace, Name: name}
		if d.Description, err = remote.Read[page.Description](ctx, e, page.Describe, q.Query()); err == nil {
			break
		}
	}
	if err != nil || kind != "pod" {
		return &d, err
	}
	report, err := statusOf(ctx, endpoints)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(report.Proxies, func(p proxyLine) bool { return p.ProxyID == d.Name+"."+namespace })
	if at >= 0 {
		d.Proxy = &report.Proxies[at]
	}
	return &d, nil
}

func (d *described) print(out *terminal.Writer) {
	printDescription(out, &d.Description, "")
	if d.Kind == "Pod" {
		text := "none is connected"
		if d.Proxy != nil {
			text = fmt.Sprintf("connected to %s since %s", d.Proxy.Replica,
				d.Proxy.ConnectedAt.UTC().Format(time.RFC3339))
		}
		out.Line("proxy: %s", text)
	}
	if len(d.Problems) == 0 {
		out.Line("no problems")
	}
	for _, p := range d.Problems {
		style := terminal.Warn
		if strings.HasPrefix(p, "error") {
			style = terminal.Bad
		}
		out.Paragraph("", style, p)
	}
}

// printDescription prints what is not empty, one line for each.
func printDescription(out *terminal.Writer, d *page.Description, indent string) {
	out.Line("%s%s %s/%s", indent, d.Kind, d.Namespace, d.Name)
	line := func(field, value string) {
		if value != "" {
			out.Paragraph(indent+"  "+field+": ", terminal.Plain, value)
		}
	}
	line("host", d.Host)
	line("service account", d.ServiceAccount)
	line("addresses", strings.Join(d.Addresses, ", "))
	line("locality", d.Locality)
	line("labels", labelText(d.Labels))
	line("mutual TLS", mutualTLSText(d))
	for _, p := range d.Ports {
		line("port", strings.TrimSpace(fmt.Sprintf("%d %s %s", p.Port, p.Name, p.Protocol))+targetText(p.Target))
	}
	if d.Endpoints != nil {
		line("endpoints", fmt.Sprintf("%d, of which %d healthy", d.Endpoints.All, d.Endpoints.Healthy))
	}
	for _, o := range d.Applied {
		how := ""
		if o.How != "" {
			how = " (" + o.How + ")"
		}
		line(o.Kind, o.Namespace+"/"+o.Name+how)
	}
	for i := range d.Services {
		printDescription(out, &d.Services[i], indent+"  ")
	}
}

func targetText(target string) string {
	if target == "" {
		return ""
	}
	return " -> " + target
}

func labelText(labels map[string]string) string {
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		texts = append(texts, key+"="+labels[key])
	}
	return strings.Join(texts, ", ")
}

func mutualTLSText(d *page.Description) string {
	text := string(d.MutualTLS)
	for _, port := range slices.Sorted(maps.Keys(d.MutualTLSPorts)) {
		text += fmt.Sprintf(", port %d %s", port, d.MutualTLSPorts[port])
	}
	return text
}

// splitName splits NAME[.NAMESPACE]. Without a namespace it is default.
func splitName(text string) (name, namespace string) {
	if at := strings.LastIndexByte(text, '.'); at >= 0 {
		return text[:at], text[at+1:]
	}
	return text, "default"
}
