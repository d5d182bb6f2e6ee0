package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/lateen-mesh/lateen/internal/perf/load"
)

const (
	// publishedEntries is how many ServiceEntries there are, and dnsWindow how long queries are
	// counted.
	publishedEntries = 50
	dnsWindow        = 20 * time.Second
	dnsZone          = "lab.test"
)

func dnsLab() Lab {
	return Lab{
		Name:       "dns",
		About:      "queries of a proxy for ServiceEntries with DNS resolution, and what each advice saves",
		Document:   aks,
		Reproduces: "the advice on ServiceEntries with resolution DNS",
		Steps: []string{
			"a DNS server that counts, 50 ServiceEntries, and one real Envoy in another namespace",
			"queries are counted for 20 s after the first lookups",
			"the same with a longer TTL, for names that do not exist (and with dnsRefreshRate), with exportTo, " +
				"and with resolution NONE",
		},
		Scale: 1, NeedsEnvoy: true,
		tables: dnsTables,
		run:    runDNS,
	}
}

// dnsSetting is a row: a variant of the ServiceEntries, and what the resolver says.
type dnsSetting struct {
	name, advice, spec string
	refresh            string // dnsRefreshRate of the mesh; "" for the default, a minute
	ttl                uint32
	missing            bool
}

func dnsSettings() []dnsSetting {
	const looked = "resolution: DNS"
	return []dnsSetting{
		{name: "resolution DNS, TTL 2 s", advice: "may load the DNS server", spec: looked, ttl: 2},
		{name: "TTL 10 s", advice: "longer TTLs reduce it", spec: looked, ttl: 10},
		{name: "names that do not exist", spec: looked, missing: true},
		{
			name: "names that do not exist, dnsRefreshRate 5 s", advice: "a longer dnsRefreshRate reduces it",
			spec: looked, missing: true, refresh: "5s",
		},
		{name: "exportTo: their own namespace", advice: "limit the scope", spec: looked + "\n  exportTo: [.]", ttl: 2},
		{name: "resolution NONE", advice: "avoids it altogether", spec: "resolution: NONE", ttl: 2},
	}
}

func dnsTables() []Table {
	t := Table{Title: "DNS queries of one proxy", Columns: []Column{
		{"first lookups", Count}, {"then, queries", PerMinute}, {"ServiceEntries", Count},
	}}
	for _, s := range dnsSettings() {
		t.Rows = append(t.Rows, row(s.name, len(t.Columns), "", s.advice))
	}
	return []Table{t}
}

func runDNS(ctx context.Context, r *run) error {
	for i, s := range dnsSettings() {
		if err := r.dns(ctx, i, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	r.note("The document has advice and no figures. Proxies look a name up again when its TTL has passed; Lateen " +
		"sets respect_dns_ttl, as istiod does, so MeshConfig's dnsRefreshRate (a minute by default) counts for " +
		"answers without a TTL alone, as those for names that do not exist.")
	return nil
}

// dns counts the queries in one setting.
func (r *run) dns(ctx context.Context, at int, s dnsSetting) (err error) {
	resolver, err := startResolver(s.ttl, s.missing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resolver.stop()) }()
	file := filepath.Join(r.StateDir, "resolv.conf")
	// The brackets have Envoy's resolver take the port.
	if err := os.WriteFile(file, fmt.Appendf(nil, "nameserver [127.0.0.1]:%d\n", resolver.port), 0o600); err != nil {
		return err
	}
	manifests := []string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: external}",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: client}",
	}
	if s.refresh != "" {
		manifests = append(manifests, "apiVersion: v1\nkind: ConfigMap\n"+
			"metadata: {name: istio, namespace: istio-system}\n"+
			"data: {mesh: 'dnsRefreshRate: "+s.refresh+"'}")
	}
	entries := r.scaled(publishedEntries, 2)
	for i := range entries {
		manifests = append(manifests, fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: external-%03d, namespace: external}
spec:
  hosts: [external-%03[1]d.%s]
  location: MESH_EXTERNAL
  ports: [{number: 80, name: http, protocol: HTTP}]
  %s`, i, dnsZone, s.spec))
	}
	mesh, err := objects(joined(manifests...))
	if err != nil {
		return err
	}
	pod := load.Pod{
		Namespace: "client", Name: "client-0", Address: "10.1.0.1", Node: "node-a", ServiceAccount: "default",
		Labels: map[string]string{"app": "client"},
	}
	c, err := r.open(ctx, append(mesh, podObject(pod, 80)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close(ctx)) }()
	r.Progress(s.name, at, len(dnsSettings()))
	e, err := r.startEnvoy(ctx, c.plane.Address(), pod, file)
	if err != nil {
		return err
	}
	defer e.stop()
	first, began := resolver.queries.Load(), time.Now()
	if err := r.pause(ctx, dnsWindow); err != nil {
		return err
	}
	then := resolver.queries.Load() - first
	r.tables[0].put(at, float64(first), float64(then)/time.Since(began).Minutes(), float64(entries))
	return nil
}

// resolver is a DNS server that counts the queries for the names of ServiceEntries.
type resolver struct {
	server  *dns.Server
	port    int
	queries atomic.Int64
	serving sync.WaitGroup
	failed  error
}

// startResolver starts one that answers with a TTL in seconds, or that no name exists.
func startResolver(ttl uint32, missing bool) (*resolver, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := conn.LocalAddr().(*net.UDPAddr).Port
	r := &resolver{port: port}
	r.server = &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		_ = w.WriteMsg(r.answer(q, ttl, missing)) // who asks has gone
	})}
	started := make(chan struct{})
	r.server.NotifyStartedFunc = func() { close(started) }
	r.serving.Go(func() { r.failed = r.server.ActivateAndServe() })
	<-started
	return r, nil
}

func (r *resolver) answer(q *dns.Msg, ttl uint32, missing bool) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	for _, question := range q.Question {
		if !dns.IsSubDomain(dnsZone+".", question.Name) {
			m.Rcode = dns.RcodeNameError
			continue
		}
		r.queries.Add(1)
		if missing {
			m.Rcode = dns.RcodeNameError
			continue
		}
		if question.Qtype == dns.TypeA {
			m.Answer = append(m.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: question.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl},
				A:   net.IPv4(127, 0, 0, 1),
			})
		}
	}
	return m
}

func (r *resolver) stop() error {
	err := r.server.Shutdown()
	r.serving.Wait()
	return errors.Join(err, r.failed)
}
