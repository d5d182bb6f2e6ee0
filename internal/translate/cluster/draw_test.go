package cluster_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
)

func drawOutbound(t *rapid.T) cluster.OutboundInput {
	return cluster.OutboundInput{
		Host: rapid.SampledFrom([]model.Host{
			"reviews.default.svc.cluster.local", "api.example.com", "*.example.com",
		}).Draw(t, "host"),
		Port:   rapid.Uint16Range(1, 4).Draw(t, "port"),
		Subset: rapid.SampledFrom([]string{"", "v1"}).Draw(t, "subset"),
		Protocol: rapid.SampledFrom([]model.Protocol{
			model.Auto, model.HTTP, model.HTTP2, model.GRPC, model.TCP, model.TLS,
		}).Draw(t, "protocol"),
		Resolution: rapid.SampledFrom([]model.Resolution{
			model.EDS, model.Passthrough, model.StrictDNS, model.LogicalDNS, model.DynamicDNS,
		}).Draw(t, "resolution"),

		ForwardProxy: rapid.Bool().Draw(t, "forward proxy"),
		External:     rapid.Bool().Draw(t, "external"),
		Gateway:      rapid.Bool().Draw(t, "gateway"),
		Zones: cluster.Zones{
			Set: rapid.Bool().Draw(t, "zones"), Off: rapid.Bool().Draw(t, "zones off"),
			Least: rapid.Uint32Range(0, 9).Draw(t, "least"),
		},
		Sessions: rapid.Bool().Draw(t, "sessions"),
		AutoTLS:  rapid.Bool().Draw(t, "auto TLS"),
		Names: model.NewInterner[string]().List(rapid.SliceOfN(rapid.SampledFrom([]string{
			"a.example.com", "spiffe://a/b",
		}), 0, 2).Draw(t, "names")),
		Service:      rapid.SampledFrom([]string{"", "default/reviews", "odd"}).Draw(t, "service"),
		Rule:         rapid.SampledFrom([]string{"", "default/rule"}).Draw(t, "rule"),
		Policy:       rapid.Ptr(rapid.Custom(drawPolicy), true).Draw(t, "policy"),
		SubsetPolicy: rapid.Ptr(rapid.Custom(drawPolicy), true).Draw(t, "subset policy"),
		Backend:      rapid.Ptr(rapid.Custom(drawPolicy), true).Draw(t, "backend policy"),
		Endpoints: model.NewInterner[cluster.LookupGroup]().List(
			rapid.SliceOfN(rapid.Custom(drawLookups), 0, 3).Draw(t, "endpoints"),
		),
		StatName:       rapid.SampledFrom([]string{"", "reviews.default"}).Draw(t, "stat name"),
		Defaults:       rapid.Ptr(rapid.Custom(drawDefaults), true).Draw(t, "defaults"),
		ConnectTimeout: drawDuration(t),
		DNSRefresh:     rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "DNS refresh"),
	}
}

func drawDefaults(t *rapid.T) model.ClusterDefaults {
	return model.ClusterDefaults{
		Pool:      rapid.Ptr(rapid.Custom(drawPool), true).Draw(t, "mesh's pool"),
		Outlier:   rapid.Ptr(rapid.Custom(drawOutlier), true).Draw(t, "mesh's outlier"),
		Keepalive: rapid.Ptr(rapid.Custom(drawKeepalive), true).Draw(t, "mesh's keepalive"),
	}
}

func drawLookups(t *rapid.T) cluster.LookupGroup {
	return cluster.LookupGroup{
		Locality: rapid.SampledFrom([]model.Locality{
			{}, {Region: "a"}, {Region: "a", Zone: "b"}, {Region: "b"},
		}).Draw(t, "locality"),
		Priority: rapid.SampledFrom([]uint32{0, 0, 1, 1000}).Draw(t, "priority"),
		Weight:   rapid.Uint32Range(0, 3).Draw(t, "weight"),
		Members: model.NewInterner[cluster.Lookup]().List(
			rapid.SliceOfN(rapid.Custom(drawLookup), 0, 3).Draw(t, "members"),
		),
	}
}

func drawLookup(t *rapid.T) cluster.Lookup {
	return cluster.Lookup{
		Address:  rapid.SampledFrom([]string{"a.example.com", "b.example.com", "10.0.0.1", ""}).Draw(t, "address"),
		Port:     rapid.Uint16Range(0, 3).Draw(t, "port"),
		Weight:   rapid.Uint32Range(0, 3).Draw(t, "weight"),
		Health:   rapid.SampledFrom([]model.Health{model.Healthy, model.Unhealthy, model.Draining}).Draw(t, "health"),
		Workload: rapid.SampledFrom([]string{"", "w"}).Draw(t, "workload"),
		TLS:      rapid.Bool().Draw(t, "TLS"),
	}
}

func drawPolicy(t *rapid.T) model.TrafficPolicy {
	p := drawBlocks(t)
	p.Announces = rapid.SampledFrom([]model.ProxyProtocol{
		model.NoProxyProtocol, model.ProxyProtocolV1, model.ProxyProtocolV2, model.UnknownProxyProtocol,
	}).Draw(t, "PROXY protocol")
	for port := range rapid.Uint16Range(0, 3).Draw(t, "ports") {
		own := drawBlocks(t)
		p.Ports = append(p.Ports, model.PortPolicy{Port: port + 1, Policy: &own})
	}
	return p
}

func drawBlocks(t *rapid.T) model.TrafficPolicy {
	return model.TrafficPolicy{
		LB:      rapid.Ptr(rapid.Custom(drawBalancer), true).Draw(t, "lb"),
		Pool:    rapid.Ptr(rapid.Custom(drawPool), true).Draw(t, "pool"),
		Outlier: rapid.Ptr(rapid.Custom(drawOutlier), true).Draw(t, "outlier"),
		TLS:     rapid.Ptr(rapid.Custom(drawTLS), true).Draw(t, "tls"),
	}
}

func drawBalancer(t *rapid.T) model.LoadBalancer {
	return model.LoadBalancer{
		Kind: rapid.SampledFrom([]model.LBKind{
			model.LeastRequest, model.RoundRobin, model.Random, model.PassthroughLB, model.RingHash, model.Maglev,
		}).Draw(t, "kind"),
		MinimumRingSize: rapid.Uint64().Draw(t, "ring"),
		MaglevTableSize: rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 2, 251, 65537})).Draw(t, "table"),
		Warmup:          rapid.Ptr(rapid.Custom(drawWarmup), true).Draw(t, "warmup"),
	}
}

func drawWarmup(t *rapid.T) model.Warmup {
	return model.Warmup{
		Duration: drawDuration(t), MinimumPerMillion: rapid.Ptr(rapid.Uint32(), true).Draw(t, "minimum"),
		Aggression: rapid.Uint32().Draw(t, "aggression"),
	}
}

func drawPool(t *rapid.T) model.ConnectionPool {
	number := rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32())
	return model.ConnectionPool{
		MaxConnections:        number.Draw(t, "connections"),
		ConnectTimeout:        drawDuration(t),
		MaxConnectionDuration: drawDuration(t),
		TCPIdleTimeout:        drawDuration(t),
		Keepalive:             rapid.Ptr(rapid.Custom(drawKeepalive), true).Draw(t, "keepalive"),

		HTTP1MaxPending:      number.Draw(t, "pending"),
		HTTP2MaxRequests:     number.Draw(t, "requests"),
		MaxRequestsPerConn:   number.Draw(t, "per connection"),
		MaxRetries:           number.Draw(t, "retries"),
		IdleTimeout:          drawDuration(t),
		MaxConcurrentStreams: number.Draw(t, "streams"),
		UpgradeHTTP2:         rapid.Bool().Draw(t, "upgrade"),
		UseClientProtocol:    rapid.Bool().Draw(t, "client"),
	}
}

func drawKeepalive(t *rapid.T) model.Keepalive {
	return model.Keepalive{
		Probes:   rapid.Uint32Range(0, 9).Draw(t, "probes"),
		Time:     drawDuration(t),
		Interval: drawDuration(t),
	}
}

func drawOutlier(t *rapid.T) model.OutlierDetection {
	count := rapid.Ptr(rapid.Uint32Range(0, 9), true)
	return model.OutlierDetection{
		Consecutive5xx:     count.Draw(t, "5xx"),
		ConsecutiveGateway: count.Draw(t, "gateway"),
		ConsecutiveLocal:   count.Draw(t, "local"),
		SplitLocal:         rapid.Bool().Draw(t, "split"),
		Interval:           drawDuration(t),
		BaseEjection:       drawDuration(t),
		MaxEjectionPercent: rapid.Uint32Range(0, 200).Draw(t, "ejection"),
		MinHealthPercent:   rapid.Uint32Range(0, 200).Draw(t, "health"),
		ErrorCodes:         rapid.SliceOfN(rapid.Uint32Range(100, 599), 0, 3).Draw(t, "codes"),
	}
}

func drawTLS(t *rapid.T) model.ClientTLS {
	file := rapid.SampledFrom([]string{"", "/etc/certs/"})
	return model.ClientTLS{
		Mode: rapid.SampledFrom([]model.TLSMode{
			model.Disable, model.Simple, model.Mutual, model.Unusable,
		}).Draw(t, "mode"),
		SNI:    rapid.SampledFrom([]string{"", "sni.example.com"}).Draw(t, "sni"),
		CAFile: named(file.Draw(t, "ca"), "ca.pem"),

		RevokedFile: named(file.Draw(t, "crl"), "crl.pem"),
		CertFile:    named(file.Draw(t, "cert"), "cert.pem"),
		KeyFile:     named(file.Draw(t, "key"), "key.pem"),
		SubjectAltNames: rapid.SliceOfN(rapid.SampledFrom([]string{
			"a.example.com", "10.0.0.1", "spiffe://a/b",
		}), 0, 2).Draw(t, "names"),
		InsecureSkipVerify: rapid.Bool().Draw(t, "insecure"),
	}
}

func named(dir, file string) string {
	if dir == "" {
		return ""
	}
	return dir + file
}

func drawDuration(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, time.Hour}).Draw(t, "duration")
}
