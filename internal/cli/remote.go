package cli

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
	// localMonitoring is where a control plane on this machine serves /debug.
	localMonitoring = "127.0.0.1:15014"
	// monitoringPort is where a replica in a cluster does.
	monitoringPort = 15014
	// findTimeout bounds the search for replicas.
	findTimeout = 10 * time.Second
	// mostAsked is how many replicas are asked at a time.
	mostAsked = 8
)

// pods is a cluster whose Pods can be found and connected to.
type pods interface {
	Replicas(ctx context.Context, namespace, revision string) ([]reach.Replica, error)
	Running(ctx context.Context, namespace, selector string) ([]string, error)
	Dial(ctx context.Context, namespace, pod string, port int) (net.Conn, error)
}

// remote says which control plane a command asks: one at an address, or all replicas in a cluster.
type remote struct {
	address                                  string
	kubeconfig, context, namespace, revision string

	// alsoCluster is set if the command needs the cluster beside the address, and has a --namespace
	// of its own.
	alsoCluster bool

	local string                             // the address that is tried without flags
	open  func(*remote) (pods, error)        // the cluster
	flag  func(names ...string) (given bool) // reports whether one of these flags is given
}

// The flags that say which cluster, and which control plane of it.
const (
	flagMonitoring = "monitoring-address"
	flagKubeconfig = "kubeconfig"
	flagContext    = "context"
	flagNamespace  = "namespace"
	flagRevision   = "revision"
)

func (r *remote) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	r.bindCluster(cmd)
	flags.StringVar(&r.address, flagMonitoring, "",
		"where the control plane serves /debug (default: "+localMonitoring+" if one answers there, otherwise "+
			"all replicas in the cluster)")
	command.HostPort(flags, flagMonitoring, &r.address)
	for _, name := range r.clusterFlags() {
		if !r.alsoCluster {
			cmd.MarkFlagsMutuallyExclusive(flagMonitoring, name)
		}
	}
	if r.open == nil {
		r.open, r.local = openCluster, localMonitoring
	}
	r.flag = func(names ...string) bool {
		for _, name := range names {
			if flags.Changed(name) {
				return true
			}
		}
		return false
	}
}

// namespaceFlag returns the flag of the control plane's namespace.
func (r *remote) namespaceFlag() string {
	if r.alsoCluster {
		return "control-plane-" + flagNamespace
	}
	return flagNamespace
}

// clusterFlags returns the flags that choose a control plane in a cluster.
func (r *remote) clusterFlags() []string {
	return []string{flagKubeconfig, flagContext, r.namespaceFlag(), flagRevision}
}

// bindCluster binds what says which cluster, and which control plane of it.
func (r *remote) bindCluster(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.kubeconfig, flagKubeconfig, "",
		"how to reach the cluster (default: as kubectl: $KUBECONFIG, ~/.kube/config, or the cluster that this runs in)")
	flags.StringVar(&r.context, flagContext, "", "the context of the kubeconfig (default: the current one)")
	flags.StringVar(&r.namespace, r.namespaceFlag(), "istio-system", "the control plane's namespace")
	flags.StringVar(&r.revision, flagRevision, "", "the control plane's revision (default: all)")
	_ = cmd.MarkFlagFilename(flagKubeconfig)
}

// restConfig returns how to reach the cluster.
func (r *remote) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = r.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: r.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("looking for the cluster: %w; want --kubeconfig FILE", err)
	}
	config.WarningHandler = rest.NoWarnings{}
	return config, nil
}

func openCluster(r *remote) (pods, error) {
	config, err := r.restConfig()
	if err != nil {
		return nil, err
	}
	return reach.New(config)
}

// endpoint is one replica, or what else serves /debug.
type endpoint struct {
	page.Client
	// cluster is where its Pod runs; nil at an address.
	cluster pods
}

// endpoints returns whom to ask: the address of the flag; without flags a control plane on this
// machine, if one answers; otherwise all replicas in the cluster.
func (r *remote) endpoints(ctx context.Context) ([]endpoint, error) {
	if r.address != "" {
		return []endpoint{atAddress(r.address)}, nil
	}
	chosen := r.flag(r.clusterFlags()...)
	if !chosen && answers(ctx, r.local) {
		return []endpoint{atAddress(r.local)}, nil
	}
	found, err := r.inCluster(ctx)
	if err != nil && !chosen {
		return nil, fmt.Errorf("nobody answers at %s, and no control plane is found in a cluster: is one running? "+
			"Want --%s, or --%s FILE (%w)", r.local, flagMonitoring, flagKubeconfig, err)
	}
	return found, err
}

func (r *remote) inCluster(ctx context.Context) ([]endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	cluster, err := r.open(r)
	if err != nil {
		return nil, err
	}
	replicas, err := cluster.Replicas(ctx, r.namespace, r.revision)
	if err != nil {
		return nil, err
	}
	if len(replicas) == 0 {
		what := "no Pod of Lateen runs in namespace " + r.namespace
		if r.revision != "" {
			what += " with revision " + r.revision
		}
		return nil, fmt.Errorf("%s; want --%s and --%s of one that is installed", what, r.namespaceFlag(), flagRevision)
	}
	var all []endpoint
	for _, replica := range replicas {
		all = append(all, inPod(cluster, replica.Namespace, replica.Pod, monitoringPort))
	}
	return all, nil
}

// inPod returns a port of a Pod. It has to be asked as localhost: the guard of /debug takes no
// names of Pods.
func inPod(cluster pods, namespace, pod string, port int) endpoint {
	forwarded := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, // each connection is a forwarded one
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return cluster.Dial(ctx, namespace, pod, port)
		},
	}}
	return endpoint{page.Client{Name: pod, Host: fmt.Sprintf("localhost:%d", port), HTTP: forwarded}, cluster}
}

func atAddress(address string) endpoint { return endpoint{Client: page.At(address)} }

// answers reports whether something listens at an address.
func answers(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// get returns the body of a path.
func (e endpoint) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	body, err := e.Get(ctx, path, query)
	return body, named(err)
}

// read decodes the JSON of a page below /debug.
func read[T any](ctx context.Context, e endpoint, name string, query url.Values) (T, error) {
	answer, err := page.Read[T](ctx, e.Client, name, query)
	return answer, named(err)
}

// named adds where the address of a control plane is given, if none answers.
func named(err error) error {
	if errors.Is(err, page.ErrSilent) {
		return fmt.Errorf("%w; its address is --%s", err, flagMonitoring)
	}
	return err
}

// eachOf calls ask for each endpoint, mostAsked at a time, and returns the answers and errors in
// the order of the endpoints.
func eachOf[T any](endpoints []endpoint, ask func(endpoint) (T, error)) ([]T, []error) {
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

// scrapeAll reads the metrics of each endpoint.
func scrapeAll(ctx context.Context, endpoints []endpoint) ([]measure.Metrics, []error) {
	return eachOf(endpoints, func(e endpoint) (measure.Metrics, error) {
		m, err := measure.Scrape{URL: "http://" + e.Host + "/metrics", Client: e.HTTP}.Metrics(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", e.Name, err)
		}
		return m, err
	})
}
