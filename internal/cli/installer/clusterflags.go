package installer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lateen-mesh/lateen/internal/install/apply"
)

// clusterFlags say which cluster, and how long a command may take.
type clusterFlags struct {
	kubeconfig, context string
	timeout             time.Duration
}

func (f *clusterFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"how to reach the cluster (default: as kubectl: $KUBECONFIG, ~/.kube/config, or the cluster that this runs in)")
	flags.StringVar(&f.context, "context", "", "the context of the kubeconfig (default: the current one)")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long the command may take")
	_ = cmd.MarkFlagFilename("kubeconfig")
}

var errNoKubeconfig = errors.New("there is no kubeconfig, and this is no Pod")

// config returns how to reach the cluster.
func (f *clusterFlags) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: f.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) { // its text advises a variable that does nothing here
		err = errNoKubeconfig
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the cluster: %w; want --kubeconfig FILE", err)
	}
	return config, nil
}

// with does something with the cluster, within the timeout.
func (f *clusterFlags) with(ctx context.Context, do func(context.Context, *apply.Cluster) error) error {
	ctx, cancel, cluster, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return do(ctx, cluster)
}

// connect returns the cluster, and a context that ends with the timeout.
func (f *clusterFlags) connect(ctx context.Context) (context.Context, context.CancelFunc, *apply.Cluster, error) {
	config, err := f.config()
	if err != nil {
		return ctx, func() {}, nil, err
	}
	cluster, err := apply.New(config)
	if err != nil {
		return ctx, func() {}, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	return ctx, cancel, cluster, nil
}
