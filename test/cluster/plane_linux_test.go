package cluster

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/cluster/tokenreview"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source/kube"
)

// serve runs the pipeline as `lateen serve --kubeconfig` does, at the address that pods know.
func (c *cluster) serve(ctx context.Context, t *testing.T, running *sync.WaitGroup, log *slog.Logger) netip.AddrPort {
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
		Logger:        log,
	})
	require.NoError(t, err)
	reviewer, err := tokenreview.New(c.api.Config(), settings.TokenAudiences)
	require.NoError(t, err)
	xds, err := c.network.Listen(int(xdsAddr().Port()))
	require.NoError(t, err)
	monitoring, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	pipeline := app.New(app.Options{
		Source:        source,
		Mesh:          mesh,
		MeshConfigMap: "istio",
		Selected:      true,
		XDS:           xds,
		Monitoring:    monitoring,
		Metrics:       metrics,
		Authenticator: app.ReviewAuthenticator{Review: reviewer.Review},
		Config:        settings,
		ProxyDrain:    5 * time.Second,
		Log:           log,
		Version:       "test",
	})
	running.Go(func() {
		if err := pipeline.Run(ctx); err != nil {
			log.Error("the control plane ends", "error", err)
		}
	})
	return xdsAddr()
}
