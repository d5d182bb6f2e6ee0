package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// addOn is a program beside the mesh that shows something, as Istio's samples install it.
type addOn struct {
	name, selector, path string
	port                 int
	what                 string
}

func addOns() []addOn {
	return []addOn{
		{"prometheus", "app.kubernetes.io/name=prometheus", "", 9090, "metrics and alerts"},
		{"grafana", "app.kubernetes.io/name=grafana", "", 3000, "dashboards"},
		{"kiali", "app=kiali", "/kiali", 20001, "the graph of the mesh"},
		{"jaeger", "app=jaeger", "", 16686, "traces"},
		{"zipkin", "app=zipkin", "", 9411, "traces"},
	}
}

// dashboardOptions are those of lateen dashboard and its subcommands.
type dashboardOptions struct {
	remote.Remote
	prometheus, output string
	addOnNamespace     string
	port               int
	grafana            bool
	html               string // a file; empty for none
	since              time.Duration
}

const (
	flagPrometheus     = "prometheus"
	flagAddOnNamespace = "add-on-namespace"
	// localPrometheus is where lateen up --observe runs Prometheus.
	localPrometheus = "http://127.0.0.1:9090"
)

// Dashboard returns the command dashboard, with those below it.
func Dashboard(out *terminal.Writer) *cobra.Command { return dashboardCommand(out, &remote.Remote{}) }

func dashboardCommand(out *terminal.Writer, r *remote.Remote) *cobra.Command {
	o := &dashboardOptions{Remote: *r}
	cmd := &cobra.Command{
		Use: "dashboard", Aliases: []string{"dash", "d"},
		Short: "What there is to look at: dashboards, Prometheus, debug pages, Envoys",
		Long: `Lists what there is to look at, and where. With a name it shows one of the dashboards, or where
one of the programs serves; in a cluster it forwards a port to it until it is interrupted.`,
		Example: `  lateen dashboard
  lateen dashboard control-plane
  lateen dashboard data-plane --grafana > data-plane.json
  lateen dashboard envoy productpage-v1-7c9d8f6b5-x2x4q.shop`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			places, err := o.places(cmd.Context())
			if err != nil {
				return err
			}
			if o.output != "table" {
				return command.PrintAs(cmd.OutOrStdout(), o.output, places)
			}
			printPlaces(out, places)
			return nil
		},
	}
	o.bind(cmd)
	command.BindOutput(cmd, &o.output)
	for _, name := range dashboardNames() {
		cmd.AddCommand(dashboardOf(out, *r, name))
	}
	for _, a := range addOns() {
		cmd.AddCommand(addOnCommand(out, *r, a))
	}
	cmd.AddCommand(debugCommand(out, *r), envoyCommand(out, *r))
	return cmd
}

func (o *dashboardOptions) bind(cmd *cobra.Command) {
	o.Bind(cmd)
	o.bindPrometheus(cmd)
	o.bindAddOns(cmd)
}

func (o *dashboardOptions) bindPrometheus(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.prometheus, flagPrometheus, localPrometheus, "the Prometheus that links lead to")
	command.ValidateFlag(cmd.Flags(), flagPrometheus, func() error {
		if at, err := url.Parse(o.prometheus); err != nil || at.Scheme == "" || at.Host == "" {
			return errors.New("want a URL, as " + localPrometheus)
		}
		o.prometheus = strings.TrimSuffix(o.prometheus, "/")
		return nil
	})
}

func (o *dashboardOptions) bindAddOns(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.addOnNamespace, flagAddOnNamespace, "",
		"where Prometheus, Grafana and their like run (default: the control plane's namespace)")
}

// DashboardsOf returns the command that lists what there is to look at, of a control plane and a
// Prometheus on this machine.
func DashboardsOf(monitoring, prometheus string) string {
	text := "lateen dashboard"
	if monitoring != remote.LocalMonitoring {
		text += " --" + remote.FlagMonitoring + " " + monitoring
	}
	if prometheus != localPrometheus {
		text += " --" + flagPrometheus + " " + prometheus
	}
	return text
}

// place is something to look at.
type place struct {
	Name string `json:"name"`
	// Open is a URL, or the command that shows it; empty if it is not there.
	Open string `json:"open,omitempty"`
	What string `json:"what"`
}

// places returns what there is to look at, on this machine or in the cluster.
func (o *dashboardOptions) places(ctx context.Context) ([]place, error) {
	var all []place
	endpoints, err := o.Endpoints(ctx)
	switch {
	case err != nil:
		all = append(all, place{Name: "debug", What: err.Error()})
	case endpoints[0].Cluster == nil:
		at := "http://" + endpoints[0].Host
		all = append(all, place{"metrics", at + "/metrics", "metrics of the control plane"},
			place{"debug", at + page.Path(page.List), "its debug pages"})
	default:
		all = append(all, place{"debug", o.again("debug"), "metrics and debug pages of the control plane"})
	}
	local, inCluster := o.prometheusAnswers(ctx), err == nil && endpoints[0].Cluster != nil
	switch {
	case local:
		all = append(all, o.prometheusPlaces(ctx)...)
	case !inCluster:
		all = append(all, place{Name: "prometheus", What: "nobody answers at " + o.prometheus +
			"; want lateen up --observe, or --" + flagPrometheus})
	}
	for _, name := range dashboardNames() {
		d, err := readDashboard(name)
		if err != nil {
			return nil, err
		}
		all = append(all, place{name, "lateen dashboard " + name, d.summary()})
	}
	if inCluster {
		all = append(all, o.inNamespace(ctx, endpoints[0].Cluster)...)
	}
	if local || inCluster {
		all = append(all, place{"envoy", o.again("envoy POD.NAMESPACE", flagPrometheus), "the admin page of a proxy"})
	}
	return append(all, place{"report", "lateen perf report DIR", "results of lateen perf … --report DIR"}), nil
}

// prometheusPlaces returns what there is to look at in the Prometheus of this machine. One without
// pages has an API alone.
func (o *dashboardOptions) prometheusPlaces(ctx context.Context) []place {
	if hasPages(ctx, o.prometheus) {
		return []place{{"prometheus", o.prometheus, "metrics"}, {"alerts", o.prometheus + "/alerts", "what fires"}}
	}
	page := o.again("control-plane --"+flagHTML+" control-plane.html", flagPrometheus)
	return []place{
		{"prometheus", o.prometheus + "/api/v1/targets", "metrics, without pages"},
		{"alerts", page, "what fires, beside the dashboard"},
	}
}

// again returns the command that shows one thing, with the flags that were given for it: those that
// say which cluster, and these.
func (o *dashboardOptions) again(what string, more ...string) string {
	values := map[string]string{
		remote.FlagKubeconfig: o.Kubeconfig, remote.FlagContext: o.Context, remote.FlagNamespace: o.Namespace,
		remote.FlagRevision: o.Revision,
		flagPrometheus:      o.prometheus, flagAddOnNamespace: o.addOnNamespace,
	}
	words := []string{"lateen dashboard", what}
	for _, name := range append(o.ClusterFlags(), more...) {
		if o.Flag(name) {
			words = append(words, "--"+name, command.Quoted(values[name]))
		}
	}
	return strings.Join(words, " ")
}

// prometheusAnswers reports whether a Prometheus answers where links lead to, and no cluster is
// asked for.
func (o *dashboardOptions) prometheusAnswers(ctx context.Context) bool {
	at, err := url.Parse(o.prometheus)
	return err == nil && !o.Flag(o.ClusterFlags()...) && remote.Answers(ctx, at.Host)
}

// inNamespace returns the add-ons of a cluster. Of one that cannot be looked for it says why.
func (o *dashboardOptions) inNamespace(ctx context.Context, cluster remote.Pods) (all []place) {
	ctx, cancel := context.WithTimeout(ctx, remote.FindTimeout)
	defer cancel()
	namespace := cmp.Or(o.addOnNamespace, o.Namespace)
	for _, a := range addOns() {
		p := place{Name: a.name, What: fmt.Sprintf("no Pod with %s runs in namespace %s", a.selector, namespace)}
		names, err := cluster.Running(ctx, namespace, a.selector)
		switch {
		case err != nil:
			p.What = err.Error()
		case len(names) > 0:
			p.Open, p.What = o.again(a.name, flagAddOnNamespace), a.what
		}
		all = append(all, p)
	}
	return all
}

func printPlaces(out *terminal.Writer, places []place) {
	t := terminal.Table{Header: []string{"NAME", "OPEN", "WHAT"}, Prose: terminal.LastColumn}
	for _, p := range places {
		t.Rows = append(t.Rows, []terminal.Cell{{Text: p.Name}, {Text: cmp.Or(p.Open, "-")}, {Text: p.What}})
	}
	out.Table(t)
}
