package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	typedadmissionv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cluster/certs"
	"github.com/lateen-mesh/lateen/internal/cluster/install"
	"github.com/lateen-mesh/lateen/internal/cluster/leader"
	"github.com/lateen-mesh/lateen/internal/cluster/status"
	"github.com/lateen-mesh/lateen/internal/cluster/webhook"
	"github.com/lateen-mesh/lateen/internal/cluster/webhook/registration"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/observe"
)

// ClusterOptions are what a Cluster needs.
type ClusterOptions struct {
	Config *rest.Config
	Names  install.Names
	// Revision is the control plane's own; empty and "default" stand for the only one.
	Revision string
	// Identity tells this replica from all others, for ever.
	Identity string
	Election leader.Timing
	// IngressNamespace is where the gateways' Service is whose addresses stand in the status of
	// Ingresses; empty stands for that of Names.
	IngressNamespace string
	// Writes tells whether this replica campaigns to be the one that writes. One that does not only
	// reads.
	Writes bool
	// Status says which objects have a status written.
	Status status.Scope
	// Webhook and Health are where the webhook (over TLS) and /ready (in plaintext) are served; nil
	// for none. They are closed in the end.
	Webhook, Health net.Listener
	// Files hold a certificate of the operator's own; the zero value stands for the Secret of
	// Names.
	Files certs.Files
	// FailurePolicy is what the webhook's configuration has once the webhook answers.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	Metrics       *observe.Metrics
	Log           *slog.Logger
}

// Cluster is what a control plane tells and writes in the cluster that it serves: it judges objects
// that are to be stored, keeps its certificate, and writes into the statuses of objects what is
// wrong with them.
//
//	every replica: webhook, certificate (read), board
//	the leader:    certificate (made, renewed), webhook configuration, statuses, addresses of Ingresses
type Cluster struct {
	o            ClusterOptions
	tracker        *status.Tracker
	ingresses    *status.Ingresses
	certificates *certs.Holder
	secret       *certs.Secret
	statuses     status.API
	core         typedcorev1.CoreV1Interface
	webhooks     typedadmissionv1.AdmissionregistrationV1Interface
	leases       typedcoordinationv1.LeasesGetter
	probe        registration.Probe
}

// NewCluster makes clients and reads the operator's files, if there are any.
func NewCluster(o ClusterOptions) (*Cluster, error) {
	c := &Cluster{o: o, tracker: status.NewTracker(), ingresses: status.NewIngresses(), certificates: certs.NewHolder()}
	if o.Files.Certificate != "" {
		if err := o.Files.Load(c.certificates); err != nil {
			return nil, fmt.Errorf("the serving certificate: %w", err)
		}
	}
	var err error
	if c.core, err = typedcorev1.NewForConfig(o.Config); err != nil {
		return nil, err
	}
	if c.leases, err = typedcoordinationv1.NewForConfig(o.Config); err != nil {
		return nil, err
	}
	if c.webhooks, err = typedadmissionv1.NewForConfig(o.Config); err != nil {
		return nil, err
	}
	if c.statuses, err = status.NewAPI(o.Config); err != nil {
		return nil, err
	}
	if c.probe, err = registration.NewProbe(o.Config, o.Names.Namespace, o.Revision); err != nil {
		return nil, err
	}
	c.secret = certs.NewSecret(certs.SecretOptions{
		Client:      c.core,
		Namespace:   o.Names.Namespace,
		Name:        o.Names.Secret,
		ServerNames: o.Names.ServerNames(),
		Log:         o.Log,
		Now:         time.Now,
	})
	return c, nil
}

// Certificates are those that servers of this process serve. They have none before Run.
func (c *Cluster) Certificates() *certs.Holder { return c.certificates }

// run works until ctx ends.
func (c *Cluster) run(ctx context.Context, p *Pipeline) error {
	g, ctx := errgroup.WithContext(ctx)
	serve := func(l net.Listener, s *http.Server, start func(net.Listener) error) {
		if l == nil {
			return
		}
		g.Go(func() error { return ignoreClosed(start(l)) })
		g.Go(func() error {
			<-ctx.Done()
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
			defer cancel()
			return s.Shutdown(stop)
		})
	}
	webhook := webhook.NewServer(webhook.NewHandler(webhook.Options{
		Mesh:    p.meshConfig,
		Metrics: c.o.Metrics,
		Log:     c.o.Log,
	}))
	webhook.TLSConfig = c.certificates.TLS()
	// handshakes that fail are the clients' affair
	webhook.ErrorLog = slog.NewLogLogger(c.o.Log.Handler(), slog.LevelDebug)
	serve(c.o.Webhook, webhook, func(l net.Listener) error { return webhook.ServeTLS(l, "", "") })
	health := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: c.health(p)}
	serve(c.o.Health, health, health.Serve)
	g.Go(func() error {
		if c.o.Files.Certificate != "" {
			c.o.Files.Run(ctx, c.certificates, c.o.Log)
		} else {
			c.secret.Watch(ctx, c.certificates)
		}
		return nil
	})
	g.Go(func() error { c.watchExpiry(ctx); return nil })
	if c.o.Writes {
		g.Go(func() error { return leader.Run(ctx, c.campaign(), c.lead) })
	}
	return g.Wait()
}

// health serves /ready: the first state is there, and a certificate if one is needed.
func (c *Cluster) health(p *Pipeline) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		err := p.registry.ready()
		if err == nil && (c.o.Webhook != nil || p.o.SecureXDS != nil) {
			err = c.certificates.Ready()
		}
		if err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
	return mux
}

func (c *Cluster) campaign() leader.Options {
	return leader.Options{
		Leases:    c.leases,
		Namespace: c.o.Names.Namespace,
		Name:      c.o.Names.Lease,
		Identity:  c.o.Identity,
		Timing:    c.o.Election,
		Log:       c.o.Log,
		Observed:  func(holder string) { c.o.Log.Info("the replica that writes", "holder", holder) },
	}
}

// lead is the work of the one replica that writes.
func (c *Cluster) lead(ctx context.Context) {
	c.o.Metrics.Status.Leader.Set(1)
	defer c.o.Metrics.Status.Leader.Set(0)
	g, ctx := errgroup.WithContext(ctx)
	if c.o.Files.Certificate == "" {
		g.Go(func() error { c.secret.Maintain(ctx); return nil })
	}
	if c.o.Webhook != nil {
		g.Go(func() error {
			registration.Run(ctx, registration.Options{
				Client: c.webhooks, Name: c.o.Names.Webhook, Bundle: c.certificates.Bundle, Policy: c.o.FailurePolicy,
				Answers: c.probe.Answers, Metrics: c.o.Metrics, Log: c.o.Log,
			})
			return nil
		})
	}
	g.Go(func() error {
		status.NewWriter(status.WriterOptions{
			Tracker: c.tracker, API: c.statuses, Scope: c.o.Status, Metrics: c.o.Metrics, Log: c.o.Log, Now: time.Now,
		}).Run(ctx)
		return nil
	})
	g.Go(func() error {
		status.NewAddressWriter(status.AddressOptions{
			Ingresses: c.ingresses, API: c.statuses, Services: c.core.RESTClient(),
			Namespace: cmp.Or(c.o.IngressNamespace, c.o.Names.Namespace), Metrics: c.o.Metrics, Log: c.o.Log,
		}).Run(ctx)
		return nil
	})
	_ = g.Wait() // none of them fails: they try again
}

// updateIngresses takes which Ingresses a generation has made the mesh's: those that Gateways stand for.
func (c *Cluster) updateIngresses(w *state.Snapshot, d *state.Delta) {
	var changes []status.IngressChange
	for _, g := range d.Gateways {
		if at := g.Either(); at.Kind == kinds.Ingress {
			changes = append(changes, status.IngressChange{Key: at.Key(), UID: at.UID, Owned: g.New != nil})
		}
	}
	c.ingresses.Compiled(changes, w.Mesh.Ingress.Service)
}

// watchExpiry shows when the certificate ends.
func (c *Cluster) watchExpiry(ctx context.Context) {
	for {
		_, changed := c.certificates.Bundle()
		if expires := c.certificates.Expires(); !expires.IsZero() {
			c.o.Metrics.Status.CertificateExpiry.Set(float64(expires.Unix()))
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// meshConfig is the configuration of the mesh now.
func (p *Pipeline) meshConfig() model.MeshConfig {
	if w := p.snapshot.Load(); w != nil {
		return *w.Mesh
	}
	return p.o.Mesh
}
