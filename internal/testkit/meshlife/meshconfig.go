package meshlife

import (
	"time"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

func drawAccessLogs(t *rapid.T) []*model.AccessLog {
	var logs []*model.AccessLog
	if rapid.Bool().Draw(t, "access log file") {
		logs = append(logs, &model.AccessLog{Path: "/dev/stdout", OmitEmpty: rapid.Bool().Draw(t, "omit empty")})
	}
	if rapid.Bool().Draw(t, "access log service") {
		logs = append(logs, &model.AccessLog{
			Kind: one(t, "kind of log", model.LogHTTP, model.LogTCP, model.LogOpenTelemetry),
			Host: one(t, "log's host", hosts...), Port: 80, LogName: "mesh",
		})
	}
	return logs
}

// drawClusterDefaults is never empty, as that of the conversion.
func drawClusterDefaults(t *rapid.T) *model.ClusterDefaults {
	d := &model.ClusterDefaults{Keepalive: &model.Keepalive{Probes: one[uint32](t, "probes", 3, 4)}}
	if policy := drawPortPolicy(t); rapid.Bool().Draw(t, "default policy") {
		d.Pool, d.Outlier = policy.Pool, policy.Outlier
	}
	return d
}

// drawMesh never changes the domain: it is a setting of the process, not of the ConfigMap.
func drawMesh(t *rapid.T) *model.MeshConfig {
	m := model.DefaultMesh()
	m.ServiceExport = one(t, "service export", exports...)
	if rapid.Bool().Draw(t, "of no effect") {
		return &m // what exportTo defaults to, the conversion alone knows
	}
	m.RootNamespace = one(t, "root", "istio-system", "istio-system", "shop")
	m.OwnHostsOnly, m.Sessions = rarely(t, 3, "own hosts only"), rapid.Bool().Draw(t, "sessions of the mesh")
	m.Outbound.RegistryOnly = rapid.Bool().Draw(t, "registry only")
	m.Outbound.DynamicDNS = !m.Outbound.RegistryOnly && rapid.Bool().Draw(t, "any name")
	m.ProxyHTTPPort = one[uint16](t, "proxy port", 0, 15081)
	m.ConnectTimeout = one(t, "connect timeout", 10*time.Second, time.Second)
	m.DNSRefresh = one(t, "DNS refresh", time.Minute, 5*time.Second)
	m.LegacyLogs = drawAccessLogs(t)
	m.AccessLogs = m.LegacyLogs
	if rarely(t, 3, "default log") {
		m.DefaultLogs = []model.LogProvider{{Name: "/dev/stderr", Log: &model.AccessLog{Path: "/dev/stderr"}}}
		m.AccessLogs = []*model.AccessLog{m.DefaultLogs[0].Log}
	}
	m.Metrics = rapid.Bool().Draw(t, "metrics")
	m.Tracing.Tracer = one(t, "tracer", nil, nil, drawTracer(t))
	m.LegacyTracer = m.Tracing.Tracer != nil && rapid.Bool().Draw(t, "legacy tracer")
	if rapid.Bool().Draw(t, "tracing provider") {
		m.Tracers = []*model.Tracer{drawTracer(t)}
	}
	m.GatewayTopology = one(t, "in front of gateways", model.GatewayTopology{}, model.GatewayTopology{},
		model.GatewayTopology{TrustedProxies: 1}, model.GatewayTopology{ClientCert: model.CertForwardOnly},
		model.GatewayTopology{ProxyProtocol: true})
	m.Headers = one(t, "headers of proxies", model.ProxyHeaders{}, model.ProxyHeaders{},
		model.ProxyHeaders{NoAttemptCount: true, Server: "a"}, model.ProxyHeaders{KeepsCase: true, ForwardedHost: true})
	m.IdleTimeout = one(t, "idle timeout", 0, time.Minute)
	m.Locality = one(t, "locality", nil, &model.LocalityLB{}, &model.LocalityLB{}, drawLocalityLB(t))
	m.AutoTLS = rapid.Bool().Draw(t, "TLS")
	m.Clusters = one(t, "defaults of clusters", nil, nil, drawClusterDefaults(t))
	m.InboundStatName = one[model.StatPattern](t, "inbound name", "", "", "%SERVICE%_%TARGET_PORT%",
		"%SERVICE_NAME%_%SERVICE_PORT%_%SERVICE_PORT_NAME%")
	m.OutboundStatName = one[model.StatPattern](t, "outbound name", "", "", "%SERVICE_FQDN%_%SUBSET_NAME%",
		"%SERVICE%_%SERVICE_PORT%_%SERVICE_PORT_NAME%")
	m.DetectionTimeout = one(t, "detection", 0, 0, time.Second)
	m.Connections = one(t, "connections", nil, nil, &model.ConnectionSettings{Edge: true},
		&model.ConnectionSettings{MaxStreams: 7, MergeSlashes: new(bool)})
	m.NoListenerLog = rarely(t, 3, "no listener log")
	m.LocalhostInbound = rarely(t, 3, "localhost")
	m.OutboundPort = one[uint16](t, "outbound port", 0, 0, 15101)
	m.InboundPort = one[uint16](t, "inbound port", 0, 0, 15106)
	m.UpgradeHTTP2 = rapid.Bool().Draw(t, "HTTP/2")
	limits := []*model.TLSParams{nil, nil, {MinVersion: model.TLS13}, {Curves: []string{"P-256"}}}
	m.MeshTLS, m.TLSDefaults = one(t, "mesh TLS", limits...), one(t, "other TLS", limits...)
	m.TrustDomain = one(t, "trust domain", m.TrustDomain, m.TrustDomain, "mesh.test")
	m.TrustDomainAliases = one(t, "aliases", nil, nil, []string{"old.test"})
	m.PathNormalization = one(t, "paths", model.NormalizeBase, model.NormalizeMergeSlashes)
	if rapid.Bool().Draw(t, "authorizer") {
		m.ExtAuthz = []*model.ExtAuthz{{Name: "opa", Host: one(t, "authorizer's host", hosts...), Port: 80}}
	}
	m.Retries.Attempts = one[uint32](t, "attempts", 2, 3)
	return &m
}
