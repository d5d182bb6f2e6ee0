package serve

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/cluster/accessreview"
	"github.com/lateen-mesh/lateen/internal/cluster/tokenreview"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source/kube"
)

// clusterFlags select a cluster, and the control plane's identity among those of the cluster.
type clusterFlags struct {
	kubeconfig, namespace, revision, clusterID string
	trustLoopback                              bool
	presence                                   presenceFlags
}

func (f *clusterFlags) bind(cmd *cobra.Command, env func(string) string) {
	f.presence.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(
		&f.kubeconfig, "kubeconfig", "", "how to reach the cluster (default: the cluster that this runs in)",
	)
	flags.StringVar(&f.namespace, "namespace", cmp.Or(
		env("POD_NAMESPACE"), "istio-system",
	), "the root namespace, where the mesh configuration is ($POD_NAMESPACE)")
	flags.StringVar(
		&f.revision,
		"revision",
		env("REVISION"),
		"serve the Istio objects whose label istio.io/rev says so, and those without it ($REVISION)",
	)
	flags.StringVar(&f.clusterID, "cluster-id", cmp.Or(
		env("CLUSTER_ID"), "Kubernetes",
	), "the cluster's name in metrics ($CLUSTER_ID)")
	flags.BoolVar(
		&f.trustLoopback,
		"trust-loopback",
		env("KUBERNETES_SERVICE_HOST") == "", // who forwards a port to a Pod comes from its loopback
		"believe proxies on a loopback --xds-address without a token, by default outside of a Pod",
	)
}

// source makes a cluster the source of a pipeline.
func (f *clusterFlags) source(p *app.Options) error {
	config, err := f.config()
	if err != nil {
		return err
	}
	klog.SetSlogLogger(p.Log) // for client-go
	p.ClusterID = f.clusterID
	p.Mesh.RootNamespace, p.Selected = f.namespace, true
	p.MeshConfigMap = install.NamesOf(f.namespace, f.revision).MeshConfig
	p.Pods = true
	p.Metrics = observe.New(observe.Build{Version: p.Version, Start: time.Now(), Now: time.Now})
	p.Source, err = kube.New(kube.Options{
		Config:        config,
		RootNamespace: f.namespace,
		ConfigMap:     p.MeshConfigMap,
		Revision:      f.revision,

		SecretNamespaces: p.Config.SecretNamespaces,

		Cluster: f.clusterID,
		Metrics: &p.Metrics.Source, Logger: p.Log,
	})
	if err != nil {
		return err
	}
	reviewer, err := tokenreview.New(config, p.Config.TokenAudiences)
	if err != nil {
		return err
	}
	p.Authenticator = app.ReviewAuthenticator{Review: reviewer.Review, Check: reviewer.Screen}
	access, err := accessreview.New(config)
	if err != nil {
		return err
	}
	p.MayReadSecrets = access.MayReadSecrets
	return nil
}

func (f *clusterFlags) config() (*rest.Config, error) {
	if f.kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w", f.kubeconfig, err)
		}
		return config, nil
	}
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New(
			"this is no cluster; want --kubeconfig FILE for one from outside, or --config-dir DIR for a directory " +
				"of manifests",
		)
	}
	if err != nil {
		return nil, fmt.Errorf("the service account that this runs with: %w", err)
	}
	return config, nil
}
