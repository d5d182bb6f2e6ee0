package agent

import (
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/dns"
	"github.com/lateen-mesh/lateen/internal/agent/health"
	"github.com/lateen-mesh/lateen/internal/agent/metrics"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
	"github.com/lateen-mesh/lateen/internal/agent/wasm"
	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/agent/xdsproxy"
	"github.com/lateen-mesh/lateen/internal/xds/nametable"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// maxLastConfig bounds the configuration that is kept for a start without the control plane. That
// of a sidecar which sees 10,000 services is some 50 MB.
const maxLastConfig = 64 << 20

// xds passes discovery on, and returns what tells whether Envoy has accepted a configuration.
func (b *builder) xds(
	names *dns.Table, certificate func() *tls.Certificate,
) (accepted func() bool, err error) {
	s := b.Settings
	upstream, err := wire.Upstream{
		Address:     s.ControlPlane.Address,
		ServerName:  s.ControlPlane.ServerName,
		RootFile:    s.ControlPlane.RootFile,
		Compliance:  s.Compliance,
		Plaintext:   s.ControlPlane.Plaintext,
		TokenFile:   s.ControlPlane.TokenFile,
		ClusterID:   s.Node.ClusterID,
		Headers:     s.ControlPlane.Headers,
		Certificate: certificate,
		NoToken:     s.CA.Provisioned != (settings.CertificateFiles{}),
	}.Dial()
	if err != nil {
		return nil, err
	}
	l, err := wire.Listen(s.Envoy.XDSSocket())
	if err != nil {
		return nil, err
	}
	o := xdsproxy.Options{
		Upstream: upstream,
		Accepted: b.started,
		Cache:    xdsproxy.CacheOptions{File: b.lastConfig(), Node: s.Node.ID(), MaxBytes: maxLastConfig},
		Log:      b.Log,
		Now:      time.Now,
	}
	b.filters(&o)
	if names != nil {
		o.Hooks = append(o.Hooks, xdsproxy.Hook{TypeURL: typeurl.NameTable, Apply: applyTo(names)})
	}
	proxy := xdsproxy.New(o)
	b.health(proxy)
	countDiscovery(b.registry, proxy)
	b.add("xDS", func(ctx context.Context) error {
		defer func() { _ = upstream.Close() }()
		return proxy.Serve(ctx, l)
	})
	return proxy.Accepted, nil
}

// filters has the agent fetch the modules of Wasm filters. Without a place for them filters fail as
// they say.
func (b *builder) filters(o *xdsproxy.Options) {
	of := b.Settings.Wasm
	if !of.Enabled {
		return
	}
	modules, err := wasm.Open(wasm.Options{
		Dir: of.Dir, MaxBytes: of.MaxBytes, Expiry: of.Expiry, PurgeInterval: of.PurgeInterval,
		Timeout: of.RequestTimeout, Attempts: of.MaxRetries, Insecure: of.Insecure, Registries: of.Registries,
		Private: of.Private, Blocked: of.Blocked, Metrics: b.registry, Log: b.Log, Now: time.Now,
	})
	if err != nil {
		b.Log.Warn("Wasm modules cannot be fetched", "error", err)
		return
	}
	o.Filters = wasm.NewRewriter(modules)
	b.add("Wasm modules", modules.Run)
}

// health has the control plane know of the workload of a machine that no kubelet probes.
func (b *builder) health(proxy *xdsproxy.Proxy) {
	probe := b.Settings.Readiness
	if probe == nil {
		return
	}
	checker := health.New(health.Options{
		Probe: *probe, Address: b.Settings.Node.Addresses[0], Ready: proxy.Accepted,
		Changed: func(healthy bool, why string) {
			b.Log.Info("the workload's health has changed", "healthy", healthy, "why", why)
			proxy.TellHealth(healthy, why)
		},
	})
	b.add("health", func(ctx context.Context) error { checker.Run(ctx); return ctx.Err() })
}

// lastConfig returns the file of the last configuration, or nothing where there is no place for it:
// a container may have a file system that nobody can write to.
func (b *builder) lastConfig() string {
	file := b.Settings.ControlPlane.LastConfig
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		b.Log.Warn("no configuration is kept for a start without the control plane", "err", err)
		return ""
	}
	return file
}

// countDiscovery registers the counts of xDS, with the names of pilot-agent's.
func countDiscovery(r *metrics.Registry, p *xdsproxy.Proxy) {
	count := func(name, help string, value func(xdsproxy.Stats) int64, labels ...string) {
		r.CounterFunc("istio_agent_"+name, help, func() float64 { return float64(value(p.Stats())) }, labels...)
	}
	count("xds_proxy_requests", "Requests of Envoy that were passed on.",
		func(s xdsproxy.Stats) int64 { return s.Requests })
	count("xds_proxy_responses", "Responses that were passed on to Envoy.",
		func(s xdsproxy.Stats) int64 { return s.Responses })
	count("istiod_connection_failures", "Streams to the control plane that had no response.",
		func(s xdsproxy.Stats) int64 { return s.UpstreamFailures })
	count("istiod_connection_terminations", "Streams that the control plane has ended.",
		func(s xdsproxy.Stats) int64 { return s.UpstreamTerminations })
	count("envoy_connection_terminations", "Streams that Envoy has ended.",
		func(s xdsproxy.Stats) int64 { return s.EnvoyTerminations })
	r.CounterFunc("lateen_agent_refused_filters", "Filters that Envoy has refused after their modules were fetched.",
		func() float64 { return float64(p.Stats().RefusedFilters) })
	r.Gauge("lateen_agent_connected", "Whether a stream to the control plane is open and has had a response.",
		func() float64 {
			if p.Stats().Connected {
				return 1
			}
			return 0
		})
}

// dns answers DNS from the control plane's name table, which it returns: nil when the agent has no
// DNS to answer.
func (b *builder) dns() (*dns.Table, error) {
	s := b.Settings
	if !s.DNS.Enabled {
		return nil, nil
	}
	file, err := os.Open("/etc/resolv.conf")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	resolvers, err := dns.ReadResolvers(file)
	if err != nil {
		return nil, err
	}
	table := dns.NewTable()
	server, err := dns.Listen(dns.Options{
		Table:     table,
		Metrics:   dns.NewMetrics(b.registry, table),
		Address:   s.DNS.Address,
		Namespace: s.Node.Namespace,
		Domain:    s.Node.Domain,
		Resolvers: resolvers,
		Parallel:  s.DNS.Parallel,
		Timeout:   s.DNS.Timeout,
	})
	if err != nil {
		return nil, err
	}
	b.add("DNS", server.Run)
	return table, nil
}

// applyTo returns what changes a table of names as the control plane says. Istio sends the whole
// table as one resource without a name; otherwise each name is a resource.
func applyTo(table *dns.Table) func(xdsproxy.Update) error {
	return func(u xdsproxy.Update) error {
		if !u.Whole && (len(u.Resources) != 1 || u.Resources[0].Name != "") {
			var changed []dns.Resource
			for _, r := range u.Resources {
				changed = append(changed, dns.Resource{Name: r.Name, Version: r.Version, Body: r.Body})
			}
			return table.Update(changed, u.Removed)
		}
		var names []nametable.Name
		for _, r := range u.Resources {
			some, err := nametable.Parse(r.Body)
			if err != nil {
				return err
			}
			names = append(names, some...)
		}
		table.Replace(names)
		return nil
	}
}
