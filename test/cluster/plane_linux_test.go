package cluster

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/cluster/install"
	"github.com/lateen-mesh/lateen/internal/cluster/leader"
	clusterstatus "github.com/lateen-mesh/lateen/internal/cluster/status"
	"github.com/lateen-mesh/lateen/internal/cluster/tokenreview"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// rootNamespace is where the control plane keeps what is its own.
const rootNamespace = "istio-system"

// serve runs the pipeline as `lateen serve --kubeconfig` does, with a certificate authority, at the
// address that pods know.
func (c *cluster) serve(ctx context.Context, t *testing.T, running *sync.WaitGroup, log *slog.Logger) {
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
	presence, err := app.NewCluster(app.ClusterOptions{
		Config:   c.api.Config(),
		Names:    install.NamesOf(rootNamespace, ""),
		Identity: "test",
		Election: leader.DefaultTiming,
		Writes:   true,
		Status:   clusterstatus.Nothing,
		CA:       &ca.DefaultTTL,
		Scope:    source.Scope,
		Metrics:  metrics,
		Log:      log,
	})
	require.NoError(t, err)
	_, err = c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: rootNamespace},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	xds, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	secure, err := c.network.Listen(int(secureAddr().Port()))
	require.NoError(t, err)
	monitoring, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	pipeline := app.New(app.Options{
		Source:        source,
		Mesh:          mesh,
		MeshConfigMap: "istio",
		Selected:      true,
		XDS:           xds,
		SecureXDS:     tls.NewListener(secure, presence.TLS()),
		Cluster:       presence,
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
}
