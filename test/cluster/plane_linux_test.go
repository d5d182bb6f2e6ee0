package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/cluster/leader"
	"github.com/lateen-mesh/lateen/internal/cluster/tokenreview"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// rootNamespace is where the control plane keeps what is its own.
const rootNamespace = "istio-system"

// plane is a running control plane.
type plane struct {
	metrics *observe.Metrics
	stop    func()
}

// serve runs the pipeline as `lateen serve --kubeconfig` does, with a certificate authority that
// goes by a clock, at the address that pods know. It ends with the cluster, or when it is stopped.
func (c *cluster) serve(t *testing.T, clock func() time.Time) {
	t.Helper()
	settings, err := config.FromEnv(func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	mesh := model.DefaultMesh()
	metrics := observe.New(observe.Build{Version: "test", Start: time.Now(), Now: time.Now})
	source, err := kube.New(kube.Options{
		Config:        c.api.Config(),
		RootNamespace: mesh.RootNamespace,
		ConfigMap:     "istio",
		Cluster:       "Kubernetes",
		Metrics:       &metrics.Source,
		Logger:        c.log,
	})
	require.NoError(t, err)
	reviewer, err := tokenreview.New(c.api.Config(), settings.TokenAudiences)
	require.NoError(t, err)
	presence, err := app.NewCluster(app.ClusterOptions{
		Config:   c.api.Config(),
		Names:    install.NamesOf(rootNamespace, ""),
		Identity: fmt.Sprint("test-", time.Now().UnixNano()),
		Election: leader.DefaultTiming,
		Writes:   true,
		CA:       &ca.DefaultTTL,
		Machines: app.MachineOptions{Registers: true, TakesHealth: true, Grace: settings.MachineGrace},
		Scope:    source.Scope,
		Now:      clock,
		Metrics:  metrics,
		Log:      c.log,
	})
	require.NoError(t, err)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	secure, err := c.network.Listen(int(secureAddr().Port()))
	require.NoError(t, err)
	pipeline := app.New(app.Options{
		Source:        source,
		Mesh:          mesh,
		MeshConfigMap: "istio",
		Selected:      true,
		XDS:           listen(),
		SecureXDS:     tls.NewListener(secure, presence.TLS()),
		Cluster:       presence,
		Monitoring:    listen(),
		Metrics:       metrics,
		Authenticator: app.ReviewAuthenticator{Review: reviewer.Review},
		Config:        settings,
		ProxyDrain:    5 * time.Second,
		Log:           c.log,
		Version:       "test",
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := pipeline.Run(ctx); err != nil {
			c.log.Error("the control plane ends", "error", err)
		}
	})
	c.plane = &plane{metrics: metrics, stop: func() { cancel(); running.Wait() }}
}
