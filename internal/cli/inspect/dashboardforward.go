package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/local/observe"
)

// flagPort is the port of this machine that is forwarded.
const flagPort = "port"

// mostForwarded bounds the connections that are forwarded at a time. More wait to be accepted.
const mostForwarded = 64

// podPort is a port of a Pod, and the path to open there.
type podPort struct {
	cluster        remote.Pods
	namespace, pod string
	port           int
	path           string
}

// addOnCommand returns the command that leads to an add-on.
func addOnCommand(out *terminal.Writer, r remote.Remote, a addOn) *cobra.Command {
	o := &dashboardOptions{Remote: r}
	cmd := &cobra.Command{
		Use: a.name, Short: "Lead to " + a.name + ": " + a.what, Args: command.Arguments(),
		Example: "  lateen dashboard " + a.name + "\n  lateen dashboard " + a.name + " --namespace istio-system",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.name == flagPrometheus && o.prometheusAnswers(cmd.Context()) {
				out.Line("%s", o.prometheus)
				return nil
			}
			cluster, err := o.clusterInstead()
			if err != nil {
				return err
			}
			namespace := cmp.Or(o.addOnNamespace, o.Namespace)
			ctx, cancel := context.WithTimeout(cmd.Context(), remote.FindTimeout)
			defer cancel()
			names, err := cluster.Running(ctx, namespace, a.selector)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return fmt.Errorf("no Pod with %s runs in namespace %s; want --add-on-namespace of %s", a.selector,
					namespace, a.name)
			}
			return o.show(cmd.Context(), out, podPort{cluster, namespace, names[0], a.port, a.path})
		},
	}
	o.bindForward(cmd)
	if a.name == flagPrometheus {
		o.bindPrometheus(cmd)
	}
	o.bindAddOns(cmd)
	return cmd
}

func (o *dashboardOptions) bindForward(cmd *cobra.Command) {
	o.Bind(cmd)
	cmd.Flags().IntVar(&o.port, flagPort, 0, "the port of this machine (default: a free one)")
	command.ValidateFlag(cmd.Flags(), flagPort, func() error {
		if o.port < 0 || o.port > math.MaxUint16 {
			return errors.New("want a port from 1 to 65535, or 0 for a free one")
		}
		return nil
	})
}

// clusterInstead returns the cluster, for a command that has found no Prometheus on this machine.
func (o *dashboardOptions) clusterInstead() (remote.Pods, error) {
	chosen := o.Flag(o.ClusterFlags()...)
	if o.Flag(flagPrometheus) && !chosen {
		return nil, fmt.Errorf("nobody answers at --%s %s; want the URL of a Prometheus, or --%s FILE for a cluster",
			flagPrometheus, o.prometheus, remote.FlagKubeconfig)
	}
	cluster, err := o.Open(&o.Remote)
	if err != nil && !chosen && o.prometheus != "" {
		return nil, fmt.Errorf("nobody answers at %s, where lateen up --observe runs Prometheus, and no cluster is "+
			"found: want --%s, or --%s FILE (%w)", o.prometheus, flagPrometheus, remote.FlagKubeconfig, err)
	}
	return cluster, err
}

// debugCommand returns the command that leads to the debug pages of the control plane.
func debugCommand(out *terminal.Writer, r remote.Remote) *cobra.Command {
	o := &dashboardOptions{Remote: r}
	cmd := &cobra.Command{
		Use: "debug", Aliases: []string{"controlz"},
		Short: "Lead to the metrics and debug pages of a control plane", Args: command.Arguments(),
		Example: "  lateen dashboard debug\n  lateen dashboard debug --namespace istio-system",
		RunE: func(cmd *cobra.Command, _ []string) error {
			endpoints, err := o.Endpoints(cmd.Context())
			if err != nil {
				return err
			}
			first := endpoints[0]
			if first.Cluster == nil {
				out.Line("http://%s/debug/list", first.Host)
				return nil
			}
			at := podPort{first.Cluster, o.Namespace, first.Name, remote.MonitoringPort, page.Path(page.List)}
			return o.show(cmd.Context(), out, at)
		},
	}
	o.bindForward(cmd)
	return cmd
}

// envoyCommand returns the command that leads to the admin page of a proxy.
func envoyCommand(out *terminal.Writer, r remote.Remote) *cobra.Command {
	o := &dashboardOptions{Remote: r}
	cmd := &cobra.Command{
		Use: "envoy POD[.NAMESPACE]", Short: "Lead to the admin page of a proxy",
		Args: command.Arguments("POD[.NAMESPACE]"),
		Long: `Leads to the admin page of a proxy: in a cluster through a forwarded port, and in a mesh of
lateen up --observe to the Envoy itself. Without a namespace it is default.`,
		Example: "  lateen dashboard envoy productpage-v1-7c9d8f6b5-x2x4q.shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			pod, namespace := splitName(args[0])
			if o.prometheusAnswers(cmd.Context()) {
				at, err := localAdmin(cmd.Context(), o.prometheus, pod+"."+namespace)
				if err != nil {
					return err
				}
				out.Line("http://%s/", at)
				return nil
			}
			cluster, err := o.clusterInstead()
			if err != nil {
				return err
			}
			return o.show(cmd.Context(), out, podPort{cluster, namespace, pod, envoyAdminPort, "/"})
		},
	}
	o.bindForward(cmd)
	o.bindPrometheus(cmd)
	return cmd
}

// localAdmin asks the Prometheus of lateen up, which knows all proxies, for the admin address of
// one.
func localAdmin(ctx context.Context, prometheus, proxy string) (string, error) {
	var answer struct {
		ActiveTargets []struct {
			DiscoveredLabels map[string]string
		}
	}
	if err := prometheusData(ctx, prometheus, "targets", url.Values{"state": {"active"}}, &answer); err != nil {
		return "", err
	}
	var known []string
	for _, t := range answer.ActiveTargets {
		if at := t.DiscoveredLabels[observe.AdminLabel]; at != "" {
			if t.DiscoveredLabels["instance"] == proxy {
				return at, nil
			}
			known = append(known, t.DiscoveredLabels["instance"])
		}
	}
	if len(known) == 0 {
		return "", fmt.Errorf("%s knows no proxies of lateen up; want --%s of one that lateen up --observe runs, or "+
			"--%s FILE for a cluster", prometheus, flagPrometheus, remote.FlagKubeconfig)
	}
	slices.Sort(known)
	return "", fmt.Errorf("%s knows no proxy %s; want one of %s", prometheus, proxy, strings.Join(known, ", "))
}

// show prints the URL of a target, and forwards connections to it until ctx ends.
func (o *dashboardOptions) show(ctx context.Context, out *terminal.Writer, t podPort) error {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return fmt.Errorf("--%s: %w; want a port that is free, or none", flagPort, err)
	}
	out.Line("http://%s%s   (Pod %s/%s; Ctrl-C ends it)", l.Addr(), t.path, t.namespace, t.pod)
	return t.forward(ctx, l, func(err error) { out.Line("%v", err) })
}

// forward passes connections on to the target, mostForwarded at a time, until ctx ends. What goes
// wrong with one is told to failed.
func (t podPort) forward(ctx context.Context, l net.Listener, failed func(error)) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	slots := make(chan struct{}, mostForwarded)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		slots <- struct{}{}
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return errors.Join(err, l.Close())
		}
		all.Go(func() {
			defer func() { <-slots }()
			if err := t.pass(ctx, conn); err != nil {
				failed(err)
			}
		})
	}
}

// pass copies both ways until one side ends.
func (t podPort) pass(ctx context.Context, conn net.Conn) error {
	defer func() { _ = conn.Close() }()
	dialing, cancel := context.WithTimeout(ctx, remote.FindTimeout)
	defer cancel()
	pod, err := t.cluster.Dial(dialing, t.namespace, t.pod, t.port)
	if err != nil {
		return err
	}
	closeBoth := sync.OnceFunc(func() { _, _ = conn.Close(), pod.Close() })
	defer closeBoth()
	defer context.AfterFunc(ctx, closeBoth)()
	var back sync.WaitGroup
	back.Go(func() {
		defer closeBoth()
		_, _ = io.Copy(conn, pod) // it ends when either side does
	})
	_, _ = io.Copy(pod, conn)
	closeBoth()
	back.Wait()
	return nil
}
