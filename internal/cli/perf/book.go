package perf

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/results"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/book"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// bookFlags are the flags of lateen perf control-plane.
type bookFlags struct {
	o                         book.Options
	selector, gatewaySelector string
	delay                     string
	prometheus, output        string
	remote                    remote.Remote
}

func newPerfBook(out, progress *terminal.Writer) *cobra.Command {
	f := bookFlags{remote: remote.Remote{AlsoCluster: true}}
	cmd := &cobra.Command{
		Use:   "control-plane",
		Short: "The test of \"Istio in Action\": how often new services make a control plane push",
		Long: `Creates Services with a Gateway and a VirtualService each in a cluster, waits until the last
answers through the gateway, and prints the push count and the latency of pushes, as
bin/performance-test.sh of the book (chapter 11) does. Pods with the labels of --selector must serve
--path. All that was created is deleted, also when the test is interrupted. Without --prom-url the
numbers are those of the control plane's own metrics.

The latency is p99 of pilot_proxy_convergence_time in the last minute. The time for which changes are
gathered (debounce) is not in it.`,
		Example: `  lateen perf control-plane --reps 10 --delay 2.5 --gateway localhost
  lateen perf control-plane --reps 10 --delay 2.5 --prom-url prometheus.istio-system:9090
  lateen perf control-plane --selector app=web --target-port 8080 --path / -o json`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(progress); err != nil {
				return err
			}
			r, err := book.Run(cmd.Context(), f.o)
			progress.Progress("")
			r.Command, r.Lateen = command.Line(cmd), build.Version
			if err != nil && r.Kind == "" {
				return err
			}
			return errors.Join(err, results.Keep(cmd, r), printBook(cmd, out, f.output, r))
		},
	}
	f.bind(cmd)
	return cmd
}

func (f *bookFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.remote.Bind(cmd)
	flags.IntVar(&f.o.Reps, "reps", 20, "how many Services, Gateways and VirtualServices are created")
	flags.StringVar(&f.delay, "delay", "0", "how long to wait after each: seconds, or a duration as 2.5s")
	flags.StringVar(&f.prometheus, "prom-url", "", "the Prometheus that is asked for the latency (default: the "+
		"control plane's /metrics)")
	flags.StringVar(&f.o.Gateway, "gateway", "localhost", "the URL of the ingress gateway")
	flags.StringVar(&f.o.Namespace, remote.FlagNamespace, "istioinaction", "where the objects are created")
	flags.StringVar(&f.selector, "selector", "app=catalog", "the labels of the Pods behind the Services")
	flags.IntVar(&f.o.TargetPort, "target-port", 3000, "the port of these Pods")
	flags.StringVar(&f.o.Path, "path", "/items", "what is asked for through the gateway; it has to answer with 200")
	flags.StringVar(&f.gatewaySelector, "gateway-selector", "istio=ingressgateway", "the labels of the gateway's Pods")
	flags.IntVar(&f.o.GatewayPort, "gateway-port", 80, "the port of the Gateways")
	flags.DurationVar(&f.o.Patience, "patience", 2*time.Minute, "how long the last one may take to answer")
	flags.DurationVar(&f.o.Settle, "settle", 10*time.Second, "the test is over when there was no push for so long")
	command.BindOutput(cmd, &f.output)
	results.Bind(cmd)
	command.AtLeast(flags, "reps", &f.o.Reps, 1)
	command.AtLeast(flags, "patience", &f.o.Patience, time.Second)
	command.AtLeast(flags, "settle", &f.o.Settle, time.Millisecond)
	command.ValidateFlag(flags, "delay", func() (err error) {
		f.o.Delay, err = parseDelay(f.delay)
		return err
	})
	command.ValidateFlag(flags, "selector", func() error {
		_, err := parseLabels(f.selector)
		return err
	})
	command.ValidateFlag(flags, "gateway-selector", func() error {
		_, err := parseLabels(f.gatewaySelector)
		return err
	})
}

// parseDelay reads seconds, as the book's script takes them, or a duration.
func parseDelay(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < 0 {
		return 0, errors.New("want seconds, as 2.5, or a duration, as 2.5s")
	}
	return d, nil
}

func parseLabels(text string) (map[string]string, error) {
	set, err := labels.ConvertSelectorToLabelsMap(text)
	if err != nil || len(set) == 0 {
		return nil, errors.New("want labels, as app=catalog")
	}
	return set, nil
}

// complete fills in what the flags lead to.
func (f *bookFlags) complete(progress *terminal.Writer) (err error) {
	f.o.Progress = progress.Bar
	if f.o.Selector, err = parseLabels(f.selector); err != nil {
		return err
	}
	if f.o.GatewaySelector, err = parseLabels(f.gatewaySelector); err != nil {
		return err
	}
	if !strings.Contains(f.o.Gateway, "://") {
		f.o.Gateway = "http://" + f.o.Gateway
	}
	if _, err := url.Parse(f.o.Gateway); err != nil {
		return fmt.Errorf("--gateway %q: want a URL, as http://localhost: %w", f.o.Gateway, err)
	}
	f.o.Gateway = strings.TrimSuffix(f.o.Gateway, "/")
	config, err := f.remote.RestConfig()
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // the pace is the test's
	if f.o.Client, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	if f.prometheus != "" {
		f.o.Prometheus = book.Prometheus(f.prometheus)
	}
	f.o.Metrics = func(ctx context.Context) (measure.Metrics, error) { return metrics(ctx, &f.remote) }
	return nil
}

// metrics returns the metrics of all replicas, as one reading.
func metrics(ctx context.Context, r *remote.Remote) (measure.Metrics, error) {
	endpoints, err := r.Endpoints(ctx)
	if err != nil {
		return nil, err
	}
	answers, errs := remote.ScrapeAll(ctx, endpoints)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all := measure.Metrics{}
	for _, m := range answers {
		for name, family := range m {
			if all[name] == nil {
				all[name] = &dto.MetricFamily{Name: family.Name, Type: family.Type}
			}
			all[name].Metric = append(all[name].Metric, family.GetMetric()...)
		}
	}
	return all, nil
}

// printBook prints the two lines of the book.
func printBook(cmd *cobra.Command, out *terminal.Writer, format string, r book.Result) error {
	if format != "table" {
		return command.PrintAs(cmd.OutOrStdout(), format, r)
	}
	latency := fmt.Sprintf("%.4f seconds", r.Latency)
	if !r.Observed {
		latency = "no push was observed"
	}
	out.Line("==============")
	out.Line("Push count: %d", r.PushCount)
	out.Line("Latency in the last minute: %s", latency)
	return nil
}
