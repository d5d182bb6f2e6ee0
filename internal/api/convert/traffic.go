package convert

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Istio's defaults of consistent hashing, and Envoy's bounds.
const (
	defaultRingSize   = 1024
	maxRingSize       = 8 << 20
	defaultMaglevSize = 65537
	maxMaglevSize     = 5_000_011
)

// loadBalancer reads how endpoints are picked. A mistake leaves the default.
func (r *reader) loadBalancer(p path, in *networking.LoadBalancerSettings) *model.LoadBalancer {
	if in == nil {
		return nil
	}
	out := &model.LoadBalancer{}
	if hash := in.GetConsistentHash(); hash != nil {
		if !r.consistentHash(p.dot("consistentHash"), hash, out) {
			return nil
		}
	} else {
		switch in.GetSimple() {
		case networking.LoadBalancerSettings_UNSPECIFIED, networking.LoadBalancerSettings_LEAST_REQUEST,
			networking.LoadBalancerSettings_LEAST_CONN: //nolint:staticcheck // deprecated, and in use
		case networking.LoadBalancerSettings_RANDOM:
			out.Kind = model.Random
		case networking.LoadBalancerSettings_ROUND_ROBIN:
			out.Kind = model.RoundRobin
		case networking.LoadBalancerSettings_PASSTHROUGH:
			out.Kind = model.PassthroughLB
		default:
			r.fail(
				p.dot("simple"), in.GetSimple(), "is no algorithm", "LEAST_REQUEST, ROUND_ROBIN, RANDOM or PASSTHROUGH",
			)
			return nil
		}
	}
	out.Locality = r.localityLB(p.dot("localityLbSetting"), in.GetLocalityLbSetting())
	if zones := in.GetZoneAwareLbSetting(); zones != nil {
		if in.GetLocalityLbSetting() != nil {
			r.fail(p.dot("localityLbSetting"), nil, "is set beside zoneAwareLbSetting, which counts", "one of them")
		}
		out.Locality = r.zoneAwareLB(p.dot("zoneAwareLbSetting"), zones)
	}
	out.Warmup = r.warmup(p, in)
	if out.Warmup != nil && out.Kind != model.LeastRequest && out.Kind != model.RoundRobin {
		r.warn(p.dot("warmup"), nil, "has no effect with this algorithm", "LEAST_REQUEST or ROUND_ROBIN")
		out.Warmup = nil
	}
	return out
}

// warmup is nil for none, also for one without a duration that can be read.
func (r *reader) warmup(p path, in *networking.LoadBalancerSettings) *model.Warmup {
	short, full := in.GetWarmupDurationSecs(), in.GetWarmup()
	if short != nil && full != nil {
		r.fail(p.dot("warmupDurationSecs"), nil, "is set beside warmup, which counts", "warmup alone")
	}
	if full != nil {
		if full.GetDuration() == nil {
			r.fail(p.dot("warmup.duration"), nil, "is missing", "a duration")
		}
		return r.warmupOf(p.dot("warmup"), full)
	}
	if duration := r.duration(p.dot("warmupDurationSecs"), short); duration > 0 {
		return &model.Warmup{Duration: duration}
	}
	return nil
}

// warmupOf reads the message. A wrong share or curve is Istio's default; the others hold.
func (r *reader) warmupOf(p path, in *networking.WarmupConfiguration) *model.Warmup {
	out := &model.Warmup{Duration: r.duration(p.dot("duration"), in.GetDuration())}
	if v := in.GetMinimumPercent(); v != nil {
		if share := v.GetValue(); share >= 0 && share <= 100 {
			perMillion := uint32(math.Round(share * 10_000))
			out.MinimumPerMillion = &perMillion
		} else {
			r.fail(p.dot("minimumPercent"), share, "is no percentage; 10 is in force", "0 to 100")
		}
	}
	if v := in.GetAggression(); v != nil {
		if curve := v.GetValue(); curve >= minAggression && curve <= maxAggression {
			out.Aggression = uint32(math.Round(curve * 1000))
		} else {
			r.fail(p.dot("aggression"), curve, "is out of range; 1 is in force", "0.001 to 1000")
		}
	}
	if out.Duration <= 0 {
		return nil
	}
	return out
}

// The bounds of warmup.aggression. Envoy wants more than 0; the rest keeps the thousandths whole.
const minAggression, maxAggression = 0.001, 1000

func (r *reader) consistentHash(
	p path, in *networking.LoadBalancerSettings_ConsistentHashLB, out *model.LoadBalancer,
) bool {
	start := r.mark()
	out.Hash = r.pools.hashes.Canonical(r.hashPolicy(p, in))
	if maglev := in.GetMaglev(); maglev != nil {
		out.Kind, out.MaglevTableSize = model.Maglev, defaultMaglevSize
		if size := maglev.GetTableSize(); size != 0 {
			out.MaglevTableSize = size
			if size > maxMaglevSize || !new(big.Int).SetUint64(size).ProbablyPrime(0) {
				r.fail(p.dot("maglev.tableSize"), size, "is no prime below 5000012", "a prime number, as 65537")
			}
		}
		return r.failure(start, p) == ""
	}
	out.Kind, out.MinimumRingSize = model.RingHash, defaultRingSize
	size, at := in.GetMinimumRingSize(), p.dot("minimumRingSize") //nolint:staticcheck // deprecated, and in use
	if in.GetRingHash() != nil {
		size, at = in.GetRingHash().GetMinimumRingSize(), p.dot("ringHash.minimumRingSize")
	}
	if size > maxRingSize {
		r.fail(at, size, "is too large", "at most 8388608")
	}
	if size != 0 {
		out.MinimumRingSize = size
	}
	return r.failure(start, p) == ""
}

func (r *reader) hashPolicy(p path, in *networking.LoadBalancerSettings_ConsistentHashLB) *model.HashPolicy {
	out := &model.HashPolicy{}
	switch key := in.GetHashKey().(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		out.Header = r.headerName(p.dot("httpHeaderName"), key.HttpHeaderName)
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		out.Query = key.HttpQueryParameterName
		if out.Query == "" {
			r.fail(p.dot("httpQueryParameterName"), "", "is empty", "the name of a query parameter")
		}
	case *networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp:
		out.SourceIP = key.UseSourceIp
		if !out.SourceIP {
			r.fail(p.dot("useSourceIp"), false, "hashes nothing", "true")
		}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		r.cookie(p.dot("httpCookie"), key.HttpCookie, out)
	default:
		r.fail(p, nil, "says nothing to hash", "one of httpHeaderName, httpCookie, useSourceIp, httpQueryParameterName")
	}
	return out
}

func (r *reader) cookie(
	p path, in *networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie, out *model.HashPolicy,
) {
	out.Cookie, out.CookiePath = in.GetName(), in.GetPath()
	if !isToken(out.Cookie) {
		r.fail(p.dot("name"), out.Cookie, "is no name of a cookie", `a name as "session"`)
	}
	if hasControl(out.CookiePath) {
		r.fail(p.dot("path"), out.CookiePath, "has control characters", `a path as "/"`)
	}
	out.CookieTTL, out.CookieTTLSet = r.durationOrZero(p.dot("ttl"), in.GetTtl()), in.GetTtl() != nil
	for i, a := range in.GetAttributes() {
		at := p.dot("attributes").at(i)
		switch {
		case !isToken(a.GetName()):
			r.fail(at.dot("name"), a.GetName(), "is no name of an attribute", `a name as "SameSite"`)
		case hasControl(a.GetValue()) || strings.Contains(a.GetValue(), ";"):
			r.fail(at.dot("value"), a.GetValue(), "has a semicolon or control characters, and would end the attribute",
				`a value as "Lax"`)
		default:
			out.Attributes = append(out.Attributes, model.CookieAttribute{Name: a.GetName(), Value: a.GetValue()})
		}
	}
}

// maxRequestsPerConn is the bound of maxRequestsPerConnection that Istio documents.
const maxRequestsPerConn = 1 << 29

// connectionPool reads limits. A wrong one gets its default; the others hold.
func (r *reader) connectionPool(p path, in *networking.ConnectionPoolSettings) *model.ConnectionPool {
	if in == nil {
		return nil
	}
	out := &model.ConnectionPool{}
	tcp, at := in.GetTcp(), p.dot("tcp")
	out.MaxConnections = r.nonNegative(at.dot("maxConnections"), tcp.GetMaxConnections())
	out.ConnectTimeout = r.duration(at.dot("connectTimeout"), tcp.GetConnectTimeout())
	out.MaxConnectionDuration = r.duration(at.dot("maxConnectionDuration"), tcp.GetMaxConnectionDuration())
	out.TCPIdleTimeout = r.durationOrZero(at.dot("idleTimeout"), tcp.GetIdleTimeout())
	if tcp.GetIdleTimeout() != nil && out.TCPIdleTimeout == 0 && !r.hasErrorAbove(at.dot("idleTimeout")) {
		out.TCPIdleTimeout = model.Never
	}
	out.Keepalive = r.keepalive(at.dot("tcpKeepalive"), tcp.GetTcpKeepalive())
	r.httpPool(p.dot("http"), in.GetHttp(), out)
	return out
}

func (r *reader) httpPool(p path, in *networking.ConnectionPoolSettings_HTTPSettings, out *model.ConnectionPool) {
	out.HTTP1MaxPending = r.nonNegative(p.dot("http1MaxPendingRequests"), in.GetHttp1MaxPendingRequests())
	out.HTTP2MaxRequests = r.nonNegative(p.dot("http2MaxRequests"), in.GetHttp2MaxRequests())
	out.MaxRequestsPerConn = r.nonNegative(p.dot("maxRequestsPerConnection"), in.GetMaxRequestsPerConnection())
	if out.MaxRequestsPerConn > maxRequestsPerConn {
		r.fail(p.dot("maxRequestsPerConnection"), out.MaxRequestsPerConn, "is too large", "at most 536870912")
		out.MaxRequestsPerConn = 0
	}
	out.MaxRetries = r.nonNegative(p.dot("maxRetries"), in.GetMaxRetries())
	out.IdleTimeout = r.duration(p.dot("idleTimeout"), in.GetIdleTimeout())
	out.MaxConcurrentStreams = r.nonNegative(p.dot("maxConcurrentStreams"), in.GetMaxConcurrentStreams())
	out.UseClientProtocol = in.GetUseClientProtocol()
	r.http2Keepalive(p.dot("http2KeepAlive"), in.GetHttp2KeepAlive(), out)
	switch in.GetH2UpgradePolicy() {
	case networking.ConnectionPoolSettings_HTTPSettings_DEFAULT:
	case networking.ConnectionPoolSettings_HTTPSettings_DO_NOT_UPGRADE:
		out.KeepHTTP1 = true
	case networking.ConnectionPoolSettings_HTTPSettings_UPGRADE:
		out.UpgradeHTTP2 = !out.UseClientProtocol
	default:
		r.fail(p.dot("h2UpgradePolicy"), in.GetH2UpgradePolicy(), "is no policy", "DEFAULT, DO_NOT_UPGRADE or UPGRADE")
	}
}

// http2Keepalive reads how connections are asked for signs of life. It needs both durations.
func (r *reader) http2Keepalive(
	p path, in *networking.ConnectionPoolSettings_HTTPSettings_ConnectionKeepalive, out *model.ConnectionPool,
) {
	if in == nil {
		return
	}
	interval, timeout := r.duration(p.dot("interval"), in.GetInterval()), r.duration(p.dot("timeout"), in.GetTimeout())
	for _, d := range []struct {
		name  string
		given bool
	}{{"interval", in.GetInterval() != nil}, {"timeout", in.GetTimeout() != nil}} {
		if !d.given {
			r.fail(p.dot(d.name), nil, "is missing, so connections are not asked for signs of life",
				"a duration, as 10s")
		}
	}
	if interval > 0 && timeout > 0 {
		out.PingInterval, out.PingTimeout = interval, timeout
	}
}

// retryBudget reads a limit of retries. A wrong one is left out: retries are not limited then.
func (r *reader) retryBudget(p path, in *networking.TrafficPolicy_RetryBudget) *model.RetryBudget {
	if in == nil {
		return nil
	}
	start := r.mark()
	out := &model.RetryBudget{
		MinConcurrency: in.GetMinRetryConcurrency(),
		Interval:       r.durationOrZero(p.dot("budgetInterval"), in.GetBudgetInterval()),
	}
	if in.GetPercent() != nil {
		percent := in.GetPercent().GetValue()
		perMillion := uint32(math.Round(min(max(percent, 0), 100) * 10_000))
		out.PerMillion = &perMillion
		switch {
		case !(percent >= 0 && percent <= 100): // also what is no number
			r.fail(p.dot("percent"), percent, "is no percentage; retries are not limited", "0 to 100")
		case percent == 0:
			r.warn(p.dot("percent"), percent, "leaves minRetryConcurrency retries (3 by default) at the same time",
				"a percentage above 0, or retries: {attempts: 0} of the VirtualService to have none")
		}
	}
	if r.failure(start, p) != "" {
		return nil
	}
	return out
}

func (r *reader) keepalive(p path, in *networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive) *model.Keepalive {
	if in == nil {
		return nil
	}
	out := &model.Keepalive{Probes: in.GetProbes(), Time: r.seconds(p.dot("time"), in.GetTime()), Interval: r.seconds(
		p.dot("interval"), in.GetInterval(),
	)}
	const maxProbes = 127 // of Linux
	if out.Probes > maxProbes {
		r.fail(p.dot("probes"), out.Probes, "is too large", "at most 127")
		out.Probes = 0
	}
	return out
}

// Istio's defaults of outlier detection, for what a policy that switches it on leaves out.
const (
	defaultConsecutive = 5
	defaultInterval    = 10 * time.Second
	defaultEjection    = 30 * time.Second
	defaultMostEjected = 10 // percent
)

func (r *reader) outlierDetection(p path, in *networking.OutlierDetection) *model.OutlierDetection {
	if in == nil {
		return nil
	}
	out := &model.OutlierDetection{
		Consecutive5xx: pointer(defaultConsecutive),
		SplitLocal:     in.GetSplitExternalLocalOriginErrors(),
		Interval:       r.duration(p.dot("interval"), in.GetInterval()),
		BaseEjection:   r.duration(p.dot("baseEjectionTime"), in.GetBaseEjectionTime()),
	}
	if v := in.GetConsecutive_5XxErrors(); v != nil {
		out.Consecutive5xx = pointer(v.GetValue())
	}
	if v := in.GetConsecutiveGatewayErrors(); v != nil {
		out.ConsecutiveGateway = pointer(v.GetValue())
	}
	if out.SplitLocal {
		out.ConsecutiveLocal = pointer(defaultConsecutive)
		if v := in.GetConsecutiveLocalOriginFailures(); v != nil {
			out.ConsecutiveLocal = pointer(v.GetValue())
		}
	} else if v := in.GetConsecutiveLocalOriginFailures(); v != nil {
		r.warn(p.dot(
			"consecutiveLocalOriginFailures",
		), v.GetValue(), "has no effect", "splitExternalLocalOriginErrors: true beside it")
	}
	out.ErrorCodes = r.errorCodes(p.dot("outlierDetectionHttpErrorCodes"), in.GetOutlierDetectionHttpErrorCodes())
	out.MaxEjectionPercent = r.wholePercent(p.dot("maxEjectionPercent"), in.GetMaxEjectionPercent())
	out.MinHealthPercent = r.wholePercent(p.dot("minHealthPercent"), in.GetMinHealthPercent())
	out.Interval, out.BaseEjection = orDefault(out.Interval, defaultInterval), orDefault(
		out.BaseEjection, defaultEjection,
	)
	out.MaxEjectionPercent = orDefault(out.MaxEjectionPercent, defaultMostEjected)
	return out
}

// errorCodes reads statuses of responses. A wrong one is left out alone.
func (r *reader) errorCodes(p path, in []uint32) (codes []uint32) {
	for i, code := range in {
		if code < 100 || code > 599 {
			r.fail(p.at(i), code, "is no status of a response", "a number from 100 to 599")
			continue
		}
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func orDefault[T comparable](v, byDefault T) T {
	var zero T
	if v == zero {
		return byDefault
	}
	return v
}

func pointer(n uint32) *uint32 { return &n }
