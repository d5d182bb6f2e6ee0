package model

import (
	"reflect"
	"slices"
	"time"
)

// DestinationRule says how a host is called. Its policies are canonical (Pool).
type DestinationRule struct {
	Meta
	Host     Host // fully qualified or wildcard
	Policy   *TrafficPolicy
	Subsets  []Subset
	ExportTo Exports
	Selector Labels // workloads of the namespace that it is for; empty for all
}

// Subset is a named part of a host's endpoints.
type Subset struct {
	Name   string
	Labels Labels
	Policy *TrafficPolicy
}

// Subset returns a subset by name.
func (d *DestinationRule) Subset(name string) (Subset, bool) {
	for _, s := range d.Subsets {
		if s.Name == name {
			return s, true
		}
	}
	return Subset{}, false
}

// PassesThrough reports whether one of the rule's policies has calls go to the address that the
// caller picked.
func (d *DestinationRule) PassesThrough() bool {
	return d.Policy.passesThrough() ||
		slices.ContainsFunc(d.Subsets, func(s Subset) bool { return s.Policy.passesThrough() })
}

func (p *TrafficPolicy) passesThrough() bool {
	if p == nil {
		return false
	}
	return p.LB != nil && p.LB.Kind == PassthroughLB ||
		slices.ContainsFunc(p.Ports, func(o PortPolicy) bool { return o.Policy.passesThrough() })
}

// Credentials returns the names of the credentials of the rule's policies, each once, sorted.
func (d *DestinationRule) Credentials() []string {
	names := d.Policy.credentials()
	for _, s := range d.Subsets {
		names = append(names, s.Policy.credentials()...)
	}
	return SortedDistinct(names)
}

func (p *TrafficPolicy) credentials() []string {
	if p == nil {
		return nil
	}
	var names []string
	if p.TLS != nil && p.TLS.Credential != "" {
		names = append(names, p.TLS.Credential)
	}
	for _, port := range p.Ports {
		names = append(names, port.Policy.credentials()...)
	}
	return names
}

// SortedDistinct sorts names in place, and returns each once.
func SortedDistinct[S ~string](names []S) []S {
	slices.Sort(names)
	return slices.Compact(names)
}

// MergeRules merges rules for one host as Istio does: all subsets, the first of each name, and the
// first trafficPolicy as a whole. The rules come in the total order. The result has the name of the
// first; it is nil for no rules.
func MergeRules(rules []*DestinationRule) *DestinationRule {
	if len(rules) == 0 {
		return nil
	}
	if len(rules) == 1 {
		return rules[0]
	}
	merged := *rules[0]
	merged.Subsets = nil
	known := map[string]bool{}
	for _, r := range rules {
		if merged.Policy == nil {
			merged.Policy = r.Policy
		}
		for _, s := range r.Subsets {
			if !known[s.Name] {
				known[s.Name] = true
				merged.Subsets = append(merged.Subsets, s)
			}
		}
	}
	return &merged
}

// HasPool reports whether a rule may limit connections to some port.
func (r *DestinationRule) HasPool() bool {
	return r.Policy != nil && (r.Policy.Pool != nil ||
		slices.ContainsFunc(r.Policy.Ports, func(p PortPolicy) bool { return p.Policy != nil && p.Policy.Pool != nil }))
}

// PoolAt returns what a policy says of connections to a service port; nil for nothing. What it says
// of the port itself replaces all else.
func (p *TrafficPolicy) PoolAt(port uint16) *ConnectionPool {
	if p == nil {
		return nil
	}
	for _, own := range p.Ports {
		if own.Port == port && own.Policy != nil {
			return own.Policy.Pool
		}
	}
	return p.Pool
}

// AtServer returns what is in force of connections from the server's own proxy to its process: all
// but the upgrade to HTTP/2, which is for the way there. It is nil for nil alone: a pool without
// limits keeps those of the mesh away.
func (p *ConnectionPool) AtServer() *ConnectionPool {
	if p == nil {
		return nil
	}
	own := *p
	own.UpgradeHTTP2, own.KeepHTTP1 = false, false
	return &own
}

// TrafficPolicy says how calls are made. A subset's policy replaces the destination's field by
// field. A port's replaces both as a whole (DestinationRule.trafficPolicy.portLevelSettings).
type TrafficPolicy struct {
	LB      *LoadBalancer
	Pool    *ConnectionPool
	Outlier *OutlierDetection
	TLS     *ClientTLS
	// Announces tells the server who connects. Ports with a policy of their own are called without.
	Announces ProxyProtocol
	Tunnel    *Tunnel      // holds for all ports, but not for subsets; nil within a PortPolicy
	Budget    *RetryBudget // holds for all ports; nil within a PortPolicy
	Ports     []PortPolicy // sorted by port; nil within a PortPolicy
}

// ProxyProtocol is the version of the PROXY protocol with which a connection to an endpoint begins
// (DestinationRule.trafficPolicy.proxyProtocol).
type ProxyProtocol uint8

// NoProxyProtocol is the default.
const (
	NoProxyProtocol ProxyProtocol = iota
	ProxyProtocolV1
	ProxyProtocolV2
	// UnknownProxyProtocol closes the destination: the rule wants one that there is not.
	UnknownProxyProtocol
)

// Tunnel sends connections of bytes through a destination, which is a proxy, by requests of HTTP
// (DestinationRule.trafficPolicy.tunnel). Port 0 is one that cannot be read: connections are
// closed.
type Tunnel struct {
	Host string // that the proxy connects to: a name or an IP
	Port uint16
	Post bool // by POST; else by CONNECT
}

// RetryBudget limits parallel retries by the requests that there are, in place of
// ConnectionPool.MaxRetries (DestinationRule.trafficPolicy.retryBudget). A nil PerMillion is
// Envoy's default of 20 %, a MinConcurrency of 0 its 3.
type RetryBudget struct {
	PerMillion     *uint32
	MinConcurrency uint32
	Interval       time.Duration // 0 counts only requests that are open
}

// PortPolicy is the policy of one service port.
type PortPolicy struct {
	Port   uint16
	Policy *TrafficPolicy
}

// LBKind is a load-balancer algorithm.
type LBKind uint8

// LeastRequest is Istio's default.
const (
	LeastRequest LBKind = iota
	RoundRobin
	Random
	PassthroughLB
	RingHash
	Maglev
)

// LoadBalancer picks endpoints.
type LoadBalancer struct {
	Kind            LBKind
	Hash            *HashPolicy // for RingHash and Maglev
	MinimumRingSize uint64
	MaglevTableSize uint64
	Warmup          *Warmup     // for LeastRequest and RoundRobin
	Locality        *LocalityLB // nil: as the Service or the mesh says
}

// Warmup lets the share of a new endpoint grow. 0 leaves Istio's defaults: 10 percent, and linear.
type Warmup struct {
	Duration time.Duration
	// MinimumPerMillion is the share at the beginning; nil for the default.
	MinimumPerMillion *uint32
	// Aggression is in thousandths. The share grows by the time to the power of 1/Aggression.
	Aggression uint32
}

// HashPolicy says what a consistent hash is made of. Exactly one of the fields up to Cookie is set.
type HashPolicy struct {
	Header       string
	Query        string
	SourceIP     bool
	Cookie       string
	CookiePath   string
	CookieTTL    time.Duration
	CookieTTLSet bool
	Attributes   []CookieAttribute // of a cookie that the proxy makes
}

// Equal reports whether both are made of the same.
func (h *HashPolicy) Equal(other *HashPolicy) bool { return reflect.DeepEqual(h, other) }

// CookieAttribute is an attribute of a Set-Cookie header; without a value its name stands alone.
type CookieAttribute struct{ Name, Value string }

// ConnectionPool limits what is open at once; 0 means Istio's default for each.
type ConnectionPool struct {
	MaxConnections        uint32
	ConnectTimeout        time.Duration
	MaxConnectionDuration time.Duration
	TCPIdleTimeout        time.Duration // Never switches it off
	Keepalive             *Keepalive

	HTTP1MaxPending      uint32
	HTTP2MaxRequests     uint32
	MaxRequestsPerConn   uint32
	MaxRetries           uint32
	IdleTimeout          time.Duration
	MaxConcurrentStreams uint32
	// PingInterval is how often HTTP/2 connections are asked for a sign of life, 0 for never, and
	// PingTimeout how long they have for it.
	PingInterval, PingTimeout time.Duration

	UpgradeHTTP2      bool // h2UpgradePolicy UPGRADE
	KeepHTTP1         bool // h2UpgradePolicy DO_NOT_UPGRADE
	UseClientProtocol bool
}

// Never stands for a timeout that is switched off, where 0 leaves a default.
const Never time.Duration = -1

// Keepalive is TCP keep-alive; 0 leaves the system's default.
type Keepalive struct {
	Probes         uint32
	Time, Interval time.Duration
}

// OutlierDetection ejects endpoints that fail. Nil means unset where zero has a meaning of its own
// (it switches off).
type OutlierDetection struct {
	Consecutive5xx     *uint32
	ConsecutiveGateway *uint32
	ConsecutiveLocal   *uint32
	SplitLocal         bool
	Interval           time.Duration
	BaseEjection       time.Duration
	MaxEjectionPercent uint32
	MinHealthPercent   uint32
	// ErrorCodes are the statuses that count as errors, sorted, each once; none: all of 500 to 599.
	ErrorCodes []uint32
}

// TLSMode says how a connection to a destination is secured.
type TLSMode uint8

// Disable is plaintext.
const (
	Disable TLSMode = iota
	Simple
	Mutual
	// IstioMutual is mutual TLS with the mesh's certificates, which the proxy's agent has.
	IstioMutual
	// Unusable is a mode that cannot be honoured. The destination is closed (no endpoints), never
	// called in plaintext.
	Unusable
)

// NeedsCredential reports whether a Secret or the proxy's own certificate is used.
func (t *ClientTLS) NeedsCredential() bool {
	return t.Credential != "" || t.Certificate != "" || t.Mode == IstioMutual
}

// ClientTLS is DestinationRule.trafficPolicy.tls.
type ClientTLS struct {
	Mode TLSMode
	SNI  string
	// Credential is the Secret with the authorities to verify the server with, and for Mutual the
	// certificate to present. If it is empty, files are used.
	Credential string
	CAFile     string
	// RevokedFile has certificates of servers that are refused, of all authorities (CRLs in PEM).
	RevokedFile string
	// Authorities are certificates in PEM to verify the server with, in place of a file.
	Authorities string
	// Certificate is the Secret with the certificate to present alone; Authorities or the system's
	// verify the server.
	Certificate        string
	CertFile, KeyFile  string
	SubjectAltNames    []string
	InsecureSkipVerify bool
}
