package meshlife

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// address6 is the one address of IPv6.
const address6 = "fd00::1"

// Few values of each kind make collisions, re-creations and shadowing likely.
var (
	namespaces = []string{"default", "shop", "istio-system"}
	names      = []string{"a", "b", "c"}
	secrets    = []string{"a", "b", "a-cacert"}
	accounts   = []string{"", "x", "x", "y"} // pods always have one
	// deployedAccounts are those of pods: among them that of the workloads of a Gateway "a".
	deployedAccounts = append(slices.Clone(accounts[1:]), "a-istio")
	created          = []int64{0, 10, 20, 30}
	labelSets        = []model.Labels{
		{}, model.LabelsOf(map[string]string{"app": "a"}), model.LabelsOf(map[string]string{"version": "v1"}),
		model.LabelsOf(map[string]string{"app": "b", "version": "v2"}),
		model.LabelsOf(map[string]string{"app": "a", "version": "v1"}),
	}
	// podLabels are those that workloads have beside what selects them.
	podLabels = append(slices.Clone(labelSets), labelSets[1],
		model.LabelsOf(map[string]string{"app": "a", model.DrainingLabel: "true"}),
		model.LabelsOf(map[string]string{"app": "a", "version": "v1", model.GatewayNameLabel: "g"}),
		model.LabelsOf(map[string]string{"app": "a", model.GatewayNameLabel: "a"}),
		model.LabelsOf(map[string]string{model.TLSModeLabel: model.TLSModeIstio}),
		model.LabelsOf(map[string]string{"app": "a", model.TLSModeLabel: model.TLSModeIstio}),
		model.LabelsOf(map[string]string{"app": "a", "version": "v1", model.TLSModeLabel: model.TLSModeIstio}),
		model.LabelsOf(map[string]string{"app": "b", "version": "v2", model.TLSModeLabel: model.TLSModeIstio}))
	hosts = []model.Host{
		"a.default.svc.cluster.local", "b.default.svc.cluster.local", "a.shop.svc.cluster.local",
		"c.shop.svc.cluster.local",
		// most of all
		"a.default.svc.cluster.local", "b.default.svc.cluster.local", "a.shop.svc.cluster.local",
		"c.shop.svc.cluster.local",
		"*.shop.svc.cluster.local", "*", "a", "a.default", "ext.example.com", "*.example.com",
	}
	wildcards = []model.Host{"*.shop.svc.cluster.local", "*.example.com"}
	// services are those of Kubernetes that there may be, by namespace.
	services = map[string][]string{"default": {"a", "b"}, "shop": {"a", "c"}, "istio-system": {"a"}}
	// gatewayNames are those of Gateways by namespace: mostly such as VirtualServices name.
	gatewayNames = map[string][]string{"default": {"c"}, "shop": {"a", "b"}, "istio-system": {"a", "b"}}
	nodes        = []string{"n1", "n2"}
	// localities are where nodes, pods and listed endpoints may be.
	localities = []model.Locality{
		{Region: "r1"}, {Region: "r1", Zone: "z1"}, {Region: "r1", Zone: "z2"},
		{Region: "r2", Zone: "z1", Subzone: "s1"}, {Region: "r2", Zone: "z1", Subzone: "s2"},
		{Zone: "z1", Subzone: "s1"},
	}
	ports     = []uint16{80, 9080, 3306}
	portNames = []string{"p80", "p9080", "p3306", "web"} // of services; the last is mostly nobody's
	addresses = []string{"127.1.0.1", "127.1.0.2", "127.1.0.3", address6}
	gateways  = [][]string{
		{model.Mesh}, {model.Mesh}, {"istio-system/a"}, {model.Mesh, "shop/b"}, {"istio-system/a", "istio-system/b"},
	}
	subnets = [][]string{nil, {"10.0.0.0/8"}, {"10.1.0.0/16"}}
	exports = []model.Exports{
		{All: true},
		{All: true},
		{All: true},
		{All: true},
		{All: true},
		{Own: true},
		{None: true},
		{Namespaces: []string{"shop"}},
	}
)

func one[T any](t *rapid.T, what string, of ...T) T { return rapid.SampledFrom(of).Draw(t, what) }

// rarely is true once in n times.
func rarely(t *rapid.T, n int, what string) bool { return rapid.IntRange(1, n).Draw(t, what) == n }

func drawPorts(t *rapid.T) []model.ServicePort {
	var list []model.ServicePort
	together := rarely(t, 3, "all to one target")
	for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(ports), 1, 2, rapid.ID).Draw(t, "ports") {
		port := model.ServicePort{
			Name: drawPortName(t, n, list), Port: n, Protocol: one(t, "protocol", model.Auto, model.HTTP, model.HTTP2,
				model.TCP, model.TCP, model.TLS, model.UDP, model.GRPCWeb),
			Target: one(t, "target", n, 8080),
		}
		if together {
			port.Target = 8080
		} else if rapid.Bool().Draw(t, "named") {
			port.Target, port.TargetName = 0, one(t, "target name", "web", "admin")
		}
		list = append(list, port)
	}
	return list
}

// drawPortName is mostly that of slices and backends for the number, and none that the ports before
// have.
func drawPortName(t *rapid.T, n uint16, before []model.ServicePort) string {
	name := fmt.Sprint("p", n)
	if rarely(t, 8, "another name") {
		name = one(t, "port name", portNames...)
	}
	for _, p := range before {
		if p.Name == name {
			return fmt.Sprint(name, "-", n)
		}
	}
	return name
}

func drawDestinations(t *rapid.T) []model.Destination {
	var list []model.Destination
	for range rapid.IntRange(1, 2).Draw(t, "destinations") {
		list = append(list, model.Destination{
			Host:   one(t, "to", hosts...),
			Port:   one[uint16](t, "port", 0, 80, 9080),
			Weight: one[uint32](t, "weight", 50, 70),
			Subset: one(t, "subset", "", "", "v1"),
		})
	}
	return list
}

func drawHTTPRoute(t *rapid.T) *model.HTTPRoute {
	r := &model.HTTPRoute{Timeout: one(t, "timeout", 0, time.Second)}
	switch rapid.IntRange(0, 9).Draw(t, "action") {
	case 0:
		r.Broken = "a mistake"
	case 1:
		r.Redirect = &model.Redirect{
			URI: "/elsewhere", Code: one[uint32](t, "code", 301, 302), Scheme: one(t, "scheme", "", "https"),
		}
	case 2:
		r.Direct = &model.DirectResponse{Status: one[uint32](t, "status", 418, 503)}
	default:
		r.Destinations, r.Session = drawDestinations(t), drawSession(t)
		if rarely(t, 3, "mirrored") {
			r.Mirrors = []model.Mirror{{Destination: drawDestinations(t)[0], Percent: 1e6}}
		}
		if rarely(t, 4, "retried") {
			r.Retries = &model.Retries{Attempts: 1, RetryOn: "reset"}
		}
	}
	for range one(t, "matches", 0, 0, 1, 2) {
		r.Matches = append(r.Matches, drawHTTPMatch(t))
	}
	return r
}

func drawHTTPMatch(t *rapid.T) *model.HTTPMatch {
	m := &model.HTTPMatch{
		URI: &model.StringMatch{
			Kind:  one(t, "match", model.Prefix, model.Exact),
			Value: one(t, "path", "/x", "/y"),
		},
		SourceLabels: one(t, "source", labelSets...), Port: one[uint16](t, "at port", 0, 0, 9080),
		Gateways:        one(t, "at gateways", nil, nil, []string{"istio-system/a"}),
		SourceNamespace: one(t, "from namespace", "", "", "shop"),
		StatPrefix:      one(t, "statistics", "", "", "x"),
	}
	if rarely(t, 3, "by header") {
		claim := one(t, "claim", nil, nil, []string{"group"})
		m.Headers = []model.HeaderMatch{{Name: "x", Match: model.StringMatch{Value: "1"}, Claim: claim}}
	}
	return m
}

func drawL4Match(t *rapid.T) *model.L4Match {
	return &model.L4Match{
		SourceLabels:    one(t, "source", labelSets...),
		Port:            one[uint16](t, "at port", 0, 0, 3306),
		SourceNamespace: one(t, "from namespace", "", "", "shop"),
		Gateways:        one(t, "at gateways", nil, nil, nil, []string{"istio-system/a"}),
	}
}

func drawTCPRoute(t *rapid.T) *model.TCPRoute {
	m := drawL4Match(t)
	m.DestinationSubnets = one(t, "subnets", subnets...)
	return &model.TCPRoute{
		Destinations: drawDestinations(t),
		Matches:      []*model.L4Match{m},
		Broken:       one(t, "broken", "", "", "", "a mistake"),
	}
}

func drawTLSRoute(t *rapid.T) *model.TLSRoute {
	m := drawL4Match(t)
	m.SNIHosts = []model.Host{one(t, "sni", hosts...)}
	return &model.TLSRoute{
		Destinations: drawDestinations(t),
		Matches:      []*model.L4Match{m},
		Broken:       one(t, "broken", "", "", "", "a mistake"),
	}
}

func drawPolicy(t *rapid.T) *model.TrafficPolicy {
	if rarely(t, 4, "no policy") {
		return nil
	}
	p := drawPortPolicy(t)
	p.Announces = one(t, "PROXY protocol", model.NoProxyProtocol, model.NoProxyProtocol, model.NoProxyProtocol,
		model.ProxyProtocolV1, model.ProxyProtocolV2, model.UnknownProxyProtocol)
	switch rapid.IntRange(0, 5).Draw(t, "tunnel") {
	case 0:
		p.Tunnel = &model.Tunnel{}
	case 1, 2:
		p.Tunnel = &model.Tunnel{
			Host: one(t, "target", "a.test", "b.test"),
			Port: one[uint16](t, "target port", 443, 444),
			Post: rapid.Bool().Draw(t, "by POST"),
		}
	}
	if rarely(t, 4, "by port") {
		p.Ports = []model.PortPolicy{{
			Port:   80,
			Policy: drawPortPolicy(t),
		}, {Port: 9080, Policy: &model.TrafficPolicy{}}}
	}
	return p
}

func drawPortPolicy(t *rapid.T) *model.TrafficPolicy {
	p := &model.TrafficPolicy{}
	switch rapid.IntRange(0, 6).Draw(t, "balancer") {
	case 6:
		p.LB = &model.LoadBalancer{Kind: model.PassthroughLB}
	case 4, 5:
		p.LB = &model.LoadBalancer{Locality: drawLocalityLB(t)}
	case 0:
		p.LB = &model.LoadBalancer{
			Kind: model.RingHash,
			Hash: &model.HashPolicy{Header: one(t, "hash by", "x-user", "x-team")},
		}
	case 1:
		p.LB = &model.LoadBalancer{Kind: model.Maglev, Hash: &model.HashPolicy{SourceIP: true}}
	}
	if rapid.Bool().Draw(t, "pool") {
		p.Pool = &model.ConnectionPool{
			TCPIdleTimeout:        one(t, "idle", 5*time.Second, 6*time.Second),
			MaxConnectionDuration: one(t, "duration", 0, time.Minute),
			UseClientProtocol:     rarely(t, 3, "as the client"),
		}
	}
	if rarely(t, 3, "outlier") {
		p.Outlier = &model.OutlierDetection{Interval: one(t, "interval", time.Second, time.Minute)}
		if rapid.Bool().Draw(t, "error codes") {
			p.Outlier.ErrorCodes = []uint32{429, 503}
		}
	}
	switch rapid.IntRange(0, 15).Draw(t, "TLS") {
	case 0:
		p.TLS = &model.ClientTLS{Mode: model.Unusable}
	case 1:
		p.TLS = &model.ClientTLS{Mode: model.IstioMutual, SNI: one(t, "SNI", "", "sni.test")}
	case 2, 3, 4:
		p.TLS = &model.ClientTLS{
			Mode:       one(t, "mode", model.Simple, model.Mutual),
			Credential: one(t, "credential", "a", "b"),
		}
	}
	return p
}

func drawSession(t *rapid.T) *model.Session {
	switch rapid.IntRange(0, 9).Draw(t, "session") {
	case 0:
		return &model.Session{Header: one(t, "session header", "x-session", "x-other")}
	case 1, 2:
		return &model.Session{Cookie: one(t, "session cookie", "a", "b"), Path: one(t, "session path", "/", "/a")}
	}
	return nil
}

// drawLocalityLB is one of those that the conversion gives.
func drawLocalityLB(t *rapid.T) *model.LocalityLB {
	lb := &model.LocalityLB{}
	switch rapid.IntRange(0, 7).Draw(t, "locality") {
	case 0:
		lb.Off = true
	case 6, 7:
		lb.ZoneAware, lb.Off = true, rarely(t, 4, "zones off")
		lb.MinClusterSize = one[uint32](t, "least", 0, 2, 3)
		if lb.Off {
			return lb
		}
		if rarely(t, 2, "other regions") {
			lb.Failover = []model.Failover{{From: one(t, "region", "r1", "r2"), To: one(t, "to region", "r2", "r3")}}
		}
		if rarely(t, 3, "labels") {
			lb.FailoverPriority = []model.PriorityLabel{{Key: one(t, "label", "version", model.HostnameLabel)}}
		}
	case 1, 5:
		lb.Distribute = []model.Distribute{{
			From: one(t, "from", model.LocalityPattern{Region: "*"}, model.LocalityPattern{Region: "r1"},
				model.LocalityPattern{Region: "r1", Zone: "z1"}),
			To: []model.LocalityShare{
				{
					To:      model.LocalityPattern{Region: "r1", Zone: one(t, "zone", "", "z1", "*")},
					Percent: one[uint32](t, "percent", 30, 40),
				},
				{To: model.LocalityPattern{Region: one(t, "region", "*", "r2")}, Percent: 60},
			},
		}}
	case 2:
		lb.Failover = []model.Failover{{From: one(t, "region", "r1", "r2"), To: one(t, "to region", "r1", "r2", "r3")}}
	case 3:
		lb.FailoverPriority = []model.PriorityLabel{
			{Key: one(t, "label", "version", model.RegionLabel, "app")},
			{Key: one(t, "then", model.ZoneLabel, model.HostnameLabel)},
			{Key: "app", Value: one(t, "app", "a", "b"), Fixed: true},
		}
	}
	return lb
}

func drawScoped(t *rapid.T) []model.ScopedHost {
	var list []model.ScopedHost
	for range rapid.IntRange(1, 2).Draw(t, "scoped") {
		list = append(list, model.ScopedHost{
			Namespace: one(t, "ns", "*", ".", "default", "shop"),
			Host:      one(t, "host", slices.Concat(hosts, wildcards, wildcards)...),
		})
	}
	return list
}
