package serve

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/process"
	"github.com/lateen-mesh/lateen/internal/cluster/certs"
	"github.com/lateen-mesh/lateen/internal/cluster/inject/watch"
	"github.com/lateen-mesh/lateen/internal/cluster/leader"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// presenceFlags are the flags for a control plane that serves its cluster: its webhook, its
// certificate, and whether it writes. Without them it only reads, and listens on loopback.
type presenceFlags struct {
	health, secureXDS, webhook string
	certificate, key, ca       string
	minTLS                     string
	ciphers                    []string
	clientCA                   string
	callers                    certs.Clients
	write                      bool
	failurePolicy              string
	leaseDuration              time.Duration
}

func (f *presenceFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.health, "health-address", "", "where to serve /ready, in plaintext (as :8080; default: nowhere)")
	flags.StringVar(&f.secureXDS, "secure-xds-address", "", "where to serve xDS over TLS (as :15012; default: nowhere)")
	flags.StringVar(
		&f.webhook,
		"webhook-address",
		"",
		"where the API server asks whether Istio objects are right, and what Pods get, over TLS (as :15017; "+
			"default: nowhere)",
	)
	flags.StringVar(
		&f.certificate,
		"tls-cert",
		"",
		"a serving certificate of your own, in PEM; it is read again when it changes (default: one that Lateen "+
			"keeps in a Secret)",
	)
	flags.StringVar(&f.key, "tls-key", "", "its key")
	flags.StringVar(
		&f.ca,
		"tls-ca",
		"",
		"the roots that the API server shall know it by (default: those in the webhook's configuration are left alone)",
	)
	flags.StringVar(&f.minTLS, "tls-min-version", "1.2",
		"the least version of TLS that is taken over TLS: 1.2 or 1.3")
	flags.StringSliceVar(&f.ciphers, "tls-cipher-suites", nil,
		"the ciphers of TLS 1.2 that are taken, by their names in Go; those of TLS 1.3 are Go's choice "+
			"(default: Go's choice)")
	flags.StringVar(&f.clientCA, "client-ca", "",
		"the roots of an authority elsewhere, in PEM, whose certificates open streams at --secure-xds-address as "+
			"Lateen's own do; it is read again when it changes")
	flags.StringVar(&f.callers.CA, "webhook-client-ca", "",
		"the roots of the API servers' client certificates, in PEM, if "+
			"their AdmissionConfiguration names one for the webhook; clients with another are refused")
	flags.StringSliceVar(&f.callers.Names, "webhook-client-name", nil,
		"a common name of such a certificate; may be repeated (default: all that the roots have signed)")
	flags.BoolVar(&f.callers.Required, "webhook-require-client-cert", false,
		"refuse clients of the webhook without a certificate")
	flags.BoolVar(
		&f.write,
		"write",
		false,
		"write statuses, the certificate and the webhook's configuration, also into the cluster of --kubeconfig "+
			"(always, in a cluster)",
	)
	flags.StringVar(&f.failurePolicy, "webhook-failure-policy", string(
		admissionregistrationv1.Fail,
	), "what the API server does with Istio objects while no webhook answers, once one has: Fail or Ignore")
	flags.DurationVar(
		&f.leaseDuration,
		"lease-duration",
		leader.DefaultTiming.Lease,
		"after which time another replica writes in place of one that has died",
	)
	command.OneOf(cmd, "webhook-failure-policy", &f.failurePolicy, string(admissionregistrationv1.Fail), string(
		admissionregistrationv1.Ignore,
	))
	command.AtLeast(flags, "lease-duration", &f.leaseDuration, time.Second)
	command.HostPort(flags, "health-address", &f.health)
	command.HostPort(flags, "secure-xds-address", &f.secureXDS)
	command.HostPort(flags, "webhook-address", &f.webhook)
	f.checkTLS(flags)
	cmd.MarkFlagsRequiredTogether("tls-cert", "tls-key")
	for _, file := range []string{"tls-cert", "tls-key", "tls-ca", "client-ca", "webhook-client-ca"} {
		_ = cmd.MarkFlagFilename(file)
	}
}

// excludeWith rejects these flags beside one that excludes a cluster: they would have no effect.
func (f *presenceFlags) excludeWith(cmd *cobra.Command, other string) {
	for _, name := range []string{
		"health-address", "secure-xds-address", "webhook-address", "tls-cert", "tls-key", "tls-ca", "write",
		"tls-min-version", "tls-cipher-suites",
		"webhook-failure-policy", "lease-duration", "webhook-client-ca", "webhook-client-name",
		"webhook-require-client-cert", "client-ca",
	} {
		cmd.MarkFlagsMutuallyExclusive(other, name)
	}
}

// join adds webhook, certificate and status writer to a pipeline, as the flags say.
func (f *clusterFlags) join(p *app.Options) error {
	if c := f.presence.callers; c.CA == "" && (c.Required || len(c.Names) > 0) {
		return errors.New("--webhook-require-client-cert and --webhook-client-name have no effect; " +
			"want --webhook-client-ca FILE with them")
	}
	if f.presence.clientCA != "" && f.presence.secureXDS == "" {
		return errors.New("--client-ca has no effect, as certificates are shown over TLS; " +
			"want --secure-xds-address with it")
	}
	rest, err := f.config()
	if err != nil {
		return err
	}
	o := app.ClusterOptions{
		Config: rest, Names: install.NamesOf(f.namespace,
			f.revision), Revision: f.revision, Identity: identity(os.Getenv, os.Hostname),
		Pod:            os.Getenv("POD_NAME"),
		Election:       f.presence.election(),
		Writes:         f.kubeconfig == "" || f.presence.write,
		Conditions:     p.Config.Status,
		DeployGateways: p.Config.DeployGateways,
		Machines: app.MachineOptions{
			Registers: p.Config.RegisterMachines, TakesHealth: p.Config.TakeHealth, Grace: p.Config.MachineGrace,
		},
		IngressNamespace: p.Config.IngressNamespace,
		Files:            certs.Files{Certificate: f.presence.certificate, Key: f.presence.key, CA: f.presence.ca},
		WebhookClients:   f.presence.callers,
		ClientCA:         f.presence.clientCA,
		Inject:           p.Config.Inject,
		Native:           watch.Native(p.Config.NativeSidecars),
		Compliance:       p.Config.Compliance,
		LimitTLS:         f.presence.limitTLS(p.Config.Compliance),
		FailurePolicy: admissionregistrationv1.FailurePolicyType(
			f.presence.failurePolicy,
		), Metrics: p.Metrics, Log: p.Log,
	}
	for _, l := range []struct {
		listener      *net.Listener
		address, flag string
	}{
		{&o.Health, f.presence.health, "--health-address"}, {&o.Webhook, f.presence.webhook, "--webhook-address"},
		{&p.SecureXDS, f.presence.secureXDS, "--secure-xds-address"},
	} {
		if l.address == "" {
			continue
		}
		if *l.listener, err = process.ListenAt(l.address, l.flag); err != nil {
			return err
		}
		p.Log.Info("listening", "flag", l.flag, "address", (*l.listener).Addr().String())
	}
	if k, ok := p.Source.(*kube.Source); ok {
		o.Scope, o.RootsName, o.IgnoreRevoked = k.Scope, p.Config.RootsName, p.Config.IgnoreRevoked
		o.RevisionOf = k.RevisionOf
	}
	if p.Config.CA && p.SecureXDS != nil {
		o.CA = &ca.TTL{Default: p.Config.WorkloadCertTTL, Max: p.Config.MaxWorkloadCertTTL}
		if o.External, err = externalCA(p.Config, f.presence.certificate != ""); err != nil {
			return err
		}
	}
	if p.Cluster, err = app.NewCluster(o); err != nil {
		return err
	}
	if p.SecureXDS != nil {
		p.SecureXDS = tls.NewListener(p.SecureXDS, p.Cluster.TLS())
	}
	return nil
}

// externalCA returns the authority elsewhere that the settings name, or nil. hasCertificate is set
// if nobody has to sign the control plane's own.
func externalCA(c config.Config, hasCertificate bool) (*app.ExternalCA, error) {
	switch {
	case !c.ExternalCA:
		return nil, nil
	case c.ServingSigner == "" && !hasCertificate:
		return nil, errors.New("EXTERNAL_CA: nobody signs the certificate of --secure-xds-address; want K8S_SIGNER, " +
			"PILOT_CERT_PROVIDER=k8s.io/SIGNER, or --tls-cert")
	}
	return &app.ExternalCA{
		Signer: c.Signer, Domain: c.SignerDomain, ServingSigner: c.ServingSigner, RootFile: ca.ExternalRootsFile,
	}, nil
}

// election returns timings in the proportions of Kubernetes' own components.
func (f *presenceFlags) election() leader.Timing {
	part := f.leaseDuration / (leader.DefaultTiming.Lease / time.Second)
	return leader.Timing{
		Lease: f.leaseDuration,
		Renew: part * (leader.DefaultTiming.Renew / time.Second),
		Retry: part * (leader.DefaultTiming.Retry / time.Second),
	}
}

// identity returns an identity that no other process has. A pod's name is not enough: pods of a
// StatefulSet come back with the same name.
func identity(env func(string) string, hostname func() (string, error)) string {
	host, _ := hostname() // without it, the time must be enough
	return fmt.Sprintf("%s_%d", cmp.Or(env("POD_NAME"), host), time.Now().UnixNano())
}
