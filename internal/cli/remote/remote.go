package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/install/reach"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

const (
	// LocalMonitoring is where a control plane on this machine serves /debug.
	LocalMonitoring = "127.0.0.1:15014"
	// MonitoringPort is where a replica in a cluster does.
	MonitoringPort = 15014
	// FindTimeout bounds the search for replicas.
	FindTimeout = 10 * time.Second
	// mostAsked is how many replicas are asked at a time.
	mostAsked = 8
)

// Pods is a cluster whose Pods can be found and connected to.
type Pods interface {
	Replicas(ctx context.Context, namespace, revision string) ([]reach.Replica, error)
	Running(ctx context.Context, namespace, selector string) ([]string, error)
	Dial(ctx context.Context, namespace, pod string, port int) (net.Conn, error)
}

// Remote says which control plane a command asks: one at an address, or all replicas in a cluster.
type Remote struct {
	address                                  string
	Kubeconfig, Context, Namespace, Revision string

	// AlsoCluster is set if the command needs the cluster beside the address, and has a --namespace
	// of its own.
	AlsoCluster bool

	Local string                             // the address that is tried without flags
	Open  func(*Remote) (Pods, error)        // the cluster
	Flag  func(names ...string) (given bool) // reports whether one of these flags is given
}

// The flags that say which cluster, and which control plane of it.
const (
	FlagMonitoring = "monitoring-address"
	FlagKubeconfig = "kubeconfig"
	FlagContext    = "context"
	FlagNamespace  = "namespace"
	FlagRevision   = "revision"
)

// Bind binds the flags to a command.
func (r *Remote) Bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	r.BindCluster(cmd)
	flags.StringVar(&r.address, FlagMonitoring, "",
		"where the control plane serves /debug (default: "+LocalMonitoring+" if one answers there, otherwise "+
			"all replicas in the cluster)")
	command.HostPort(flags, FlagMonitoring, &r.address)
	for _, name := range r.ClusterFlags() {
		if !r.AlsoCluster {
			cmd.MarkFlagsMutuallyExclusive(FlagMonitoring, name)
		}
	}
	if r.Open == nil {
		r.Open, r.Local = openCluster, LocalMonitoring
	}
	r.Flag = func(names ...string) bool {
		for _, name := range names {
			if flags.Changed(name) {
				return true
			}
		}
		return false
	}
}

// namespaceFlag returns the flag of the control plane's namespace.
func (r *Remote) namespaceFlag() string {
	if r.AlsoCluster {
		return "control-plane-" + FlagNamespace
	}
	return FlagNamespace
}

// ClusterFlags returns the flags that choose a control plane in a cluster.
func (r *Remote) ClusterFlags() []string {
	return []string{FlagKubeconfig, FlagContext, r.namespaceFlag(), FlagRevision}
}

// BindCluster binds what says which cluster, and which control plane of it.
func (r *Remote) BindCluster(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.Kubeconfig, FlagKubeconfig, "",
		"how to reach the cluster (default: as kubectl: $KUBECONFIG, ~/.kube/config, or the cluster that this runs in)")
	flags.StringVar(&r.Context, FlagContext, "", "the context of the kubeconfig (default: the current one)")
	flags.StringVar(&r.Namespace, r.namespaceFlag(), "istio-system", "the control plane's namespace")
	flags.StringVar(&r.Revision, FlagRevision, "", "the control plane's revision (default: all)")
	_ = cmd.MarkFlagFilename(FlagKubeconfig)
}

var errNoKubeconfig = errors.New("there is no kubeconfig, and this is no Pod")

// RestConfig returns how to reach the cluster.
func (r *Remote) RestConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = r.Kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: r.Context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) { // its text advises a variable that does nothing here
		err = errNoKubeconfig
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the cluster: %w; want --kubeconfig FILE", err)
	}
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

func openCluster(r *Remote) (Pods, error) {
	config, err := r.RestConfig()
	if err != nil {
		return nil, err
	}
	return reach.New(config)
}

// Endpoint is one replica, or what else serves /debug.
type Endpoint struct {
	page.Client
	// Cluster is where its Pod runs; nil at an address.
	Cluster Pods
}

// Endpoints returns whom to ask: the address of the flag; without flags a control plane on this
// machine, if one answers; otherwise all replicas in the cluster.
func (r *Remote) Endpoints(ctx context.Context) ([]Endpoint, error) {
	if r.address != "" {
		return []Endpoint{AtAddress(r.address)}, nil
	}
	chosen := r.Flag(r.ClusterFlags()...)
	if !chosen && Answers(ctx, r.Local) {
		return []Endpoint{AtAddress(r.Local)}, nil
	}
	found, err := r.inCluster(ctx)
	if err != nil && !chosen {
		return nil, fmt.Errorf("nobody answers at %s, and no control plane is found in a cluster: want lateen up DIR, "+
			"which runs one on this machine, --%s, or --%s FILE (%w)", r.Local, FlagMonitoring, FlagKubeconfig, err)
	}
	return found, err
}

func (r *Remote) inCluster(ctx context.Context) ([]Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, FindTimeout)
	defer cancel()
	cluster, err := r.Open(r)
	if err != nil {
		return nil, err
	}
	replicas, err := cluster.Replicas(ctx, r.Namespace, r.Revision)
	if err != nil {
		return nil, err
	}
	if len(replicas) == 0 {
		what := "no Pod of Lateen runs in namespace " + r.Namespace
		if r.Revision != "" {
			what += " with revision " + r.Revision
		}
		return nil, fmt.Errorf("%s; want --%s and --%s of one that is installed", what, r.namespaceFlag(), FlagRevision)
	}
	var all []Endpoint
	for _, replica := range replicas {
		all = append(all, InPod(cluster, replica.Namespace, replica.Pod, MonitoringPort))
	}
	return all, nil
}

// InPod returns a port of a Pod. It has to be asked as localhost: the guard of /debug takes no
// names of Pods.
func InPod(cluster Pods, namespace, pod string, port int) Endpoint {
	forwarded := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // each connection is a forwarded one
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return cluster.Dial(ctx, namespace, pod, port)
		},
	}}
	return Endpoint{page.Client{Name: pod, Host: fmt.Sprintf("localhost:%d", port), HTTP: forwarded}, cluster}
}

// AtAddress is what serves /debug at an address, as 127.0.0.1:15014.
func AtAddress(address string) Endpoint { return Endpoint{Client: page.At(address)} }

// Answers reports whether something listens at an address.
func Answers(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Fetch returns the body of a path.
func (e Endpoint) Fetch(ctx context.Context, path string, query url.Values) ([]byte, error) {
	body, err := e.Get(ctx, path, query)
	return body, named(err)
}

// Read decodes the JSON of a page below /debug.
func Read[T any](ctx context.Context, e Endpoint, name string, query url.Values) (T, error) {
	answer, err := page.Read[T](ctx, e.Client, name, query)
	return answer, named(err)
}

// Ask sends a question to a page below /debug, and decodes the JSON of its answer.
func Ask[T any](ctx context.Context, e Endpoint, name string, question any) (T, error) {
	answer, err := page.Ask[T](ctx, e.Client, name, question)
	return answer, named(err)
}

// named adds where the address of a control plane is given, if none answers.
func named(err error) error {
	if errors.Is(err, page.ErrSilent) {
		return fmt.Errorf("%w; its address is --%s", err, FlagMonitoring)
	}
	return err
}

// EachOf calls ask for each endpoint, mostAsked at a time, and returns the answers and errors in
// the order of the endpoints.
func EachOf[T any](endpoints []Endpoint, ask func(Endpoint) (T, error)) ([]T, []error) {
	answers, errs := make([]T, len(endpoints)), make([]error, len(endpoints))
	slots := make(chan struct{}, mostAsked)
	var all sync.WaitGroup
	for i, e := range endpoints {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			answers[i], errs[i] = ask(e)
		})
	}
	all.Wait()
	return answers, errs
}

// ScrapeAll reads the metrics of each endpoint.
func ScrapeAll(ctx context.Context, endpoints []Endpoint) ([]measure.Metrics, []error) {
	return EachOf(endpoints, func(e Endpoint) (measure.Metrics, error) {
		m, err := measure.Scrape{URL: "http://" + e.Host + "/metrics", Client: e.HTTP}.Metrics(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", e.Name, err)
		}
		return m, err
	})
}
