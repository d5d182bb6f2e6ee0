package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	typedadmissionv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cluster/certs"
	"github.com/lateen-mesh/lateen/internal/cluster/gateways"
	"github.com/lateen-mesh/lateen/internal/cluster/inject/watch"
	"github.com/lateen-mesh/lateen/internal/cluster/keysets"
	"github.com/lateen-mesh/lateen/internal/cluster/leader"
	"github.com/lateen-mesh/lateen/internal/cluster/machines"
	"github.com/lateen-mesh/lateen/internal/cluster/status"
	"github.com/lateen-mesh/lateen/internal/cluster/webhook"
	"github.com/lateen-mesh/lateen/internal/cluster/webhook/registration"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// ClusterOptions are what a Cluster needs.
type ClusterOptions struct {
	Config *rest.Config
	Names  install.Names
	// Revision is the control plane's own; empty and "default" stand for the only one.
	Revision string
	// Identity differs from that of all other replicas, past and future.
	Identity string
	// Pod is the name of this replica's Pod; empty outside of a cluster.
	Pod      string
	Election leader.Timing
	// IngressNamespace is the namespace of the gateways' Service, whose addresses go into the
	// status of Ingresses. Empty stands for the namespace of Names.
	IngressNamespace string
	// Writes is set if this replica campaigns for leadership. A replica that does not only reads.
	Writes bool
	// Conditions is set if the conditions of objects are written.
	Conditions bool
	// DeployGateways is set if Gateways of the Gateway API are deployed.
	DeployGateways bool
	// Machines says how machines outside of Kubernetes register themselves.
	Machines MachineOptions
	// Inject is set if the webhook injects Pods, and Native says where their proxies stand.
	Inject bool
	Native watch.Native
	// Compliance is the policy that the agents of injected Pods keep.
	Compliance compliance.Policy
	// Webhook and Health are the listeners of the webhook (over TLS) and of /ready (in plaintext);
	// nil for none. The Cluster closes them.
	Webhook, Health net.Listener
	// Files are a certificate of the operator's own. The zero value stands for the Secret of Names.
	Files certs.Files
	// WebhookClients say who may ask the webhook; the zero value stands for everybody.
	WebhookClients certs.Clients
	// LimitTLS narrows what connections to the secure port and to the webhook may use; nil for Go's
	// own limits.
	LimitTLS func(*tls.Config)
	// ClientCA is a file with the roots of authorities elsewhere, whose certificates open streams
	// as those of the mesh's own do; empty for none.
	ClientCA string
	// CA are the lifetimes of the certificates that are issued; nil if there is no certificate
	// authority.
	CA *ca.TTL
	// External is the authority elsewhere that signs in place of an own one; nil for none.
	External *ExternalCA
	// RootsName is the name of the ConfigMaps with the authority's roots; empty means Istio's.
	RootsName string
	// IgnoreRevoked leaves the authority's lists of revoked certificates out.
	IgnoreRevoked bool
	// Scope returns what reports which namespaces are in the mesh, by their labels (kube.Source);
	// nil: all are.
	Scope func() (selects func(labels map[string]string) bool, changed <-chan struct{})
	// RevisionOf returns what tells the revision that a label istio.io/rev names (kube.Source);
	// nil: there are no tags.
	RevisionOf func() (revisionOf func(string) string, changed <-chan struct{})
	// FailurePolicy is the policy of the webhook's configuration once the webhook answers.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// Now is the clock that certificates go by; nil stands for that of the machine.
	Now     func() time.Time
	Metrics *observe.Metrics
	Log     *slog.Logger
}

// MachineOptions say how machines outside of Kubernetes register themselves.
type MachineOptions struct {
	// Registers is set if WorkloadEntries are made for them, and TakesHealth if the health of their
	// workloads is written.
	Registers, TakesHealth bool
	// Grace is how long one may be gone until its entry is removed.
	Grace time.Duration
}

// Cluster is what a control plane does for the cluster that it serves, beside xDS: it validates
// objects before they are stored, gives Pods their proxies, maintains its certificate, and writes
// problems into the statuses of objects.
//
//	every replica: webhook, injector, certificate (read), tracker, entries of connected machines
//	the leader:    certificate (made, renewed), webhook configurations, statuses, Ingress addresses,
//	               keys of token issuers, entries of machines of replicas that are gone
type Cluster struct {
	o            ClusterOptions
	tracker      *status.Tracker
	ingresses    *status.Ingresses
	attachments  *status.Attachments
	deployments  *gateways.Deployments
	certificates *certs.Holder
	callers      *certs.ClientCheck
	clients      *certs.Roots // nil for none
	secret       *certs.Secret
	authority    *authority         // nil if there is none
	machines     *machines.Registry // nil if machines do not register
	statuses     status.API
	attached     status.API // for statuses of the Gateway API
	deploy       rest.Interface
	core         typedcorev1.CoreV1Interface
	webhooks     typedadmissionv1.AdmissionregistrationV1Interface
	leases       typedcoordinationv1.LeasesGetter
	probe        registration.Probe
	injection    *watch.Watch // nil if nothing is injected
	templates    *watch.Watch // of the proxies of Gateways; nil if none is deployed
}

// runsInPod reports whether the process is a Pod of the cluster. It is false if c is nil.
func (c *Cluster) runsInPod() bool { return c != nil && c.o.Pod != "" }

// registry returns what registers machines, nil if there is nothing or c is nil.
func (c *Cluster) registry() *machines.Registry {
	if c == nil {
		return nil
	}
	return c.machines
}

// NewCluster makes the clients, and reads the operator's files if there are any.
func NewCluster(o ClusterOptions) (*Cluster, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Cluster{
		o: o, tracker: status.NewTracker(), ingresses: status.NewIngresses(), attachments: status.NewAttachments(),
		deployments: gateways.NewDeployments(), certificates: certs.NewHolder(),
	}
	if o.Files.Certificate != "" {
		if err := o.Files.Load(c.certificates); err != nil {
			return nil, fmt.Errorf("the serving certificate: %w", err)
		}
	}
	var err error
	c.callers, err = certs.NewClientCheck(o.WebhookClients, func(reason string) {
		o.Metrics.Admission.ClientsRefused.WithLabelValues(reason).Inc()
	})
	if err != nil {
		return nil, fmt.Errorf("the authorities of the webhook's clients: %w", err)
	}
	if o.ClientCA != "" {
		if c.clients, err = certs.NewRoots(o.ClientCA); err != nil {
			return nil, fmt.Errorf("the authorities of proxies: %w", err)
		}
	}
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
	if c.attached, err = status.NewAttachmentAPI(o.Config); err != nil {
		return nil, err
	}
	if c.deploy, err = gateways.NewAPI(o.Config); err != nil {
		return nil, err
	}
	if c.probe, err = registration.NewProbe(o.Config, o.Names.Namespace, o.Revision); err != nil {
		return nil, err
	}
	c.watchTemplates()
	c.secret = certs.NewSecret(certs.SecretOptions{
		Client:      c.core,
		Namespace:   o.Names.Namespace,
		Name:        o.Names.Secret,
		ServerNames: o.Names.ServerNames(),
		Log:         o.Log,
		Now:         o.Now,
	})
	if c.machines, err = c.newMachines(); err != nil {
		return nil, err
	}
	if o.CA != nil {
		c.authority, err = newAuthority(o)
	}
	return c, err
}

// run serves and writes until ctx ends.
func (c *Cluster) run(ctx context.Context, p *Pipeline) error {
	g, ctx := errgroup.WithContext(ctx)
	yielded := make(chan struct{})
	g.Go(func() error {
		defer close(yielded)
		<-ctx.Done()
		c.yield(ctx)
		return nil
	})
	serve := func(l net.Listener, s *http.Server, start func(net.Listener) error) {
		if l == nil {
			return
		}
		g.Go(func() error { return ignoreClosed(start(l)) })
		g.Go(func() error {
			<-yielded // until then the API server insists on an answer
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
			defer cancel()
			return s.Shutdown(stop)
		})
	}
	webhook := webhook.NewServer(webhook.NewHandler(c.admission(p)))
	webhook.TLSConfig = c.limited(c.certificates.TLS())
	c.callers.On(webhook.TLSConfig)
	// handshakes that fail are the clients' affair
	webhook.ErrorLog = slog.NewLogLogger(c.o.Log.Handler(), slog.LevelDebug)
	serve(c.o.Webhook, webhook, func(l net.Listener) error { return webhook.ServeTLS(l, "", "") })
	health := newHTTPServer(c.health(p))
	serve(c.o.Health, health, health.Serve)
	g.Go(func() error {
		if c.o.Files.Certificate != "" {
			c.o.Files.Run(ctx, c.certificates, c.o.Log)
		} else {
			c.secret.Watch(ctx, c.certificates)
		}
		return nil
	})
	if w := cmp.Or(c.injection, c.templates); w != nil { // they are the same if both are there
		g.Go(func() error { w.Run(ctx); return nil })
	}
	g.Go(func() error { c.callers.Run(ctx, c.o.Log); return nil })
	g.Go(func() error { c.clients.Run(ctx, c.o.Log); return nil })
	g.Go(func() error { c.watchExpiry(ctx); return nil })
	if c.machines != nil {
		g.Go(func() error { c.machines.Run(ctx); return nil })
	}
	if c.authority != nil {
		g.Go(func() error { c.authority.run(ctx, p); return nil })
	}
	if c.o.Writes {
		g.Go(func() error {
			return leader.Run(ctx, c.campaign(), func(ctx context.Context) { c.lead(ctx, p) })
		})
	}
	return g.Wait()
}

// admission returns what the webhook needs.
func (c *Cluster) admission(p *Pipeline) webhook.Options {
	o := webhook.Options{
		Mesh: p.meshConfig, Metrics: c.o.Metrics, Log: c.o.Log, Budget: p.changeBudget, Reach: p.reach,
	}
	if c.injection != nil {
		o.Injector, o.ProxyConfigs = c.injection.Injector, p.proxyConfigs
	}
	return o
}

// health serves /ready. It answers 200 once there is a first state, a certificate if one is needed,
// and the configuration of the injection has been read.
func (c *Cluster) health(p *Pipeline) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		err := p.registry.ready()
		if err == nil && (c.o.Webhook != nil || p.o.SecureXDS != nil) {
			err = c.certificates.Ready()
		}
		if err == nil && c.injection != nil {
			err = c.injection.Ready()
		}
		if err == nil && c.authority != nil {
			err = c.authority.ready()
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

// lead does the work of the leader.
func (c *Cluster) lead(ctx context.Context, p *Pipeline) {
	c.o.Metrics.Status.Leader.Set(1)
	defer c.o.Metrics.Status.Leader.Set(0)
	g, ctx := errgroup.WithContext(ctx)
	if c.o.Files.Certificate == "" {
		g.Go(func() error { c.secret.Maintain(ctx); return nil })
	}
	if c.authority != nil {
		g.Go(func() error { c.authority.lead(ctx); return nil })
	}
	if c.machines != nil {
		g.Go(func() error { c.machines.Lead(ctx); return nil })
	}
	keys := keysets.Store{Client: c.core, Namespace: c.o.Names.Namespace, Name: c.o.Names.KeySets}
	g.Go(func() error { p.keys.run(ctx, keys.Write); return nil })
	if c.o.Webhook != nil {
		g.Go(func() error {
			registration.Run(ctx, c.registration())
			return nil
		})
	}
	if c.injection != nil {
		g.Go(func() error {
			registration.RunInjection(ctx, registration.InjectionOptions{
				Client: c.webhooks, Bundle: c.certificates.Bundle,
				Revision: cmp.Or(c.o.Revision, install.DefaultRevision),
				Service:  types.NamespacedName{Namespace: c.o.Names.Namespace, Name: c.o.Names.Service},
				Metrics:  c.o.Metrics, Log: c.o.Log,
			})
			return nil
		})
	}
	if c.o.Conditions {
		g.Go(func() error {
			status.NewWriter(status.WriterOptions{
				Tracker: c.tracker, API: c.statuses, Metrics: c.o.Metrics, Log: c.o.Log, Now: time.Now,
			}).Run(ctx)
			return nil
		})
	}
	g.Go(func() error { c.noteMatches(ctx, p); return nil })
	g.Go(func() error {
		status.NewAddressWriter(status.AddressOptions{
			Ingresses: c.ingresses, API: c.statuses, Services: c.core.RESTClient(),
			Namespace: cmp.Or(c.o.IngressNamespace, c.o.Names.Namespace), Metrics: c.o.Metrics, Log: c.o.Log,
		}).Run(ctx)
		return nil
	})
	g.Go(func() error {
		status.NewAttachmentWriter(status.AttachmentOptions{
			Attachments: c.attachments, API: c.attached, Metrics: c.o.Metrics, Log: c.o.Log, Now: time.Now,
		}).Run(ctx)
		return nil
	})
	if c.o.DeployGateways {
		g.Go(func() error { gateways.NewController(c.gateways()).Run(ctx); return nil })
	}
	_ = g.Wait() // none of them fails: they try again
}

func (c *Cluster) registration() registration.Options {
	return registration.Options{
		Client: c.webhooks, Name: c.o.Names.Webhook, Bundle: c.certificates.Bundle, Policy: c.o.FailurePolicy,
		Answers: c.probe.Answers, Metrics: c.o.Metrics, Log: c.o.Log,
	}
}

// yield tells the API server that it need not ask, if the webhook stops here and runs nowhere else.
// Each replica does so, because the leader need not be the last one.
func (c *Cluster) yield(ctx context.Context) {
	if c.o.Webhook == nil || !c.o.Writes {
		return
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	registration.Yield(stop, c.registration(), registration.Replicas{
		Pods: c.core, Namespace: c.o.Names.Namespace, Labels: install.ReplicaLabels(c.o.Revision), Own: c.o.Pod,
	})
}

// watchExpiry reports when the certificate expires.
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

// proxyConfigs returns the ProxyConfigs in force for a Pod.
func (p *Pipeline) proxyConfigs(namespace string, labels map[string]string) model.ProxyConfigs {
	w := p.snapshot.Load()
	if w == nil {
		return model.ProxyConfigs{}
	}
	return model.ProxyConfigsFor(w.Mesh.RootNamespace, namespace, model.LabelsOf(labels), w.ProxyConfigs)
}

// meshConfig returns the present configuration of the mesh.
func (p *Pipeline) meshConfig() model.MeshConfig {
	if w := p.snapshot.Load(); w != nil {
		return *w.Mesh
	}
	return p.o.Mesh
}
