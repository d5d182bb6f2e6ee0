package config

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
)

// Config are the settings of the pipeline.
type Config struct {
	// DebounceAfter is the quiet period that ends a batch of changes (PILOT_DEBOUNCE_AFTER, 100ms).
	DebounceAfter time.Duration
	// DebounceMax is the longest wait of a change for its batch (PILOT_DEBOUNCE_MAX, 10s).
	DebounceMax time.Duration
	// DebounceSteady is how long a change of configuration waits where others come all the time and
	// pushes cost little; 0 is up to DebounceMax (LATEEN_DEBOUNCE_STEADY, 150ms; 0 if
	// PILOT_DEBOUNCE_AFTER or PILOT_DEBOUNCE_MAX is set).
	DebounceSteady time.Duration
	// DebounceEarly lets the first change after a quiet period leave at once, a removal after this
	// time, and endpoints separately with at least this time between them. 0 turns that off
	// (LATEEN_DEBOUNCE_EARLY, 20ms; 0 if PILOT_DEBOUNCE_AFTER is set).
	DebounceEarly time.Duration
	// DebounceMoves is how long an endpoint is kept that one EndpointSlice has lost and no other
	// has got yet, while its Pod runs (LATEEN_DEBOUNCE_MOVES, 2s; 0 turns that off).
	DebounceMoves time.Duration
	// EDSDebounce is set if changes of endpoints are debounced too (PILOT_ENABLE_EDS_DEBOUNCE,
	// true).
	EDSDebounce bool
	// SendUnhealthy is set if endpoints that are not ready are sent too, marked as unhealthy
	// (PILOT_SEND_UNHEALTHY_ENDPOINTS, false).
	SendUnhealthy bool
	// OwnHostsOnly is set if VirtualServices route calls to hosts of other namespaces for callers
	// of their own namespace alone (the opposite of LATEEN_ROUTES_FOR_HOSTS_OF_OTHERS, true).
	OwnHostsOnly bool
	// Sessions is set if labels of Services and routes of the Gateway API keep clients at an
	// endpoint (PILOT_ENABLE_PERSISTENT_SESSION_FILTER, false).
	Sessions bool
	// PushThrottle is how many pushes may be under way at a time (PILOT_PUSH_THROTTLE, 0: from the
	// machine's size).
	PushThrottle int
	// MaxRequestsPerSecond is how many streams may begin per second (PILOT_MAX_REQUESTS_PER_SECOND,
	// 0: from the machine's size).
	MaxRequestsPerSecond float64
	// SendTimeout is how long a proxy may take to read one response, before its stream is ended
	// (PILOT_XDS_SEND_TIMEOUT, 0: 30 s).
	SendTimeout time.Duration
	// StreamsPerAddress is how many streams and connections one IP address may have as long as no
	// Pod is proven (LATEEN_MAX_STREAMS_PER_ADDRESS, 2048; 0: no limit).
	StreamsPerAddress int
	// MaxRecvMsgSize is the largest request in bytes (ISTIO_GPRC_MAXRECVMSGSIZE, 8 MiB).
	MaxRecvMsgSize int
	// HistoryBytes is how much memory may remember generations (LATEEN_HISTORY_BYTES, 32 MiB; 0:
	// nothing is remembered).
	HistoryBytes int
	// HistoryDir is the directory that keeps them over a restart (LATEEN_HISTORY_DIR; empty: none).
	HistoryDir string
	// ChangeWarnsAt and ChangeRefusedAt are how many proxies a change may reach, where a namespace
	// says nothing (LATEEN_CHANGE_WARNS_AT, LATEEN_CHANGE_REFUSED_AT, 0: no limit).
	ChangeWarnsAt, ChangeRefusedAt int
	// TokenAudiences are the accepted audiences of a proxy's token (TOKEN_AUDIENCES, istio-ca).
	TokenAudiences []string
	// CA is set if this is a certificate authority (ENABLE_CA_SERVER, true).
	CA bool
	// ExternalCA is set if signers of Kubernetes sign in its place (EXTERNAL_CA,
	// ISTIOD_RA_KUBERNETES_API).
	ExternalCA bool
	// Signer signs for proxies that name no signer (K8S_SIGNER), and SignerDomain stands before the
	// names of the others (CERT_SIGNER_DOMAIN).
	Signer, SignerDomain string
	// ServingSigner signs the control plane's own certificate (PILOT_CERT_PROVIDER=k8s.io/SIGNER;
	// Signer).
	ServingSigner string
	// WorkloadCertTTL is the life of a workload's certificate whose request names none, and
	// MaxWorkloadCertTTL the longest (DEFAULT_WORKLOAD_CERT_TTL, 24h; MAX_WORKLOAD_CERT_TTL,
	// 2160h).
	WorkloadCertTTL, MaxWorkloadCertTTL time.Duration
	// RootsName is the name of the ConfigMaps with the roots (PILOT_CA_CERT_CONFIGMAP,
	// istio-ca-root-cert).
	RootsName string
	// IgnoreRevoked leaves the authority's lists of revoked certificates out
	// (PILOT_ENABLE_CA_CRL=false).
	IgnoreRevoked bool
	// Compliance limits TLS of the control plane and of all proxies (COMPLIANCE_POLICY, none).
	Compliance compliance.Policy
	// NodeAccounts are the service accounts, as "namespace/name", that may ask for certificates of
	// the Pods of their node (CA_TRUSTED_NODE_ACCOUNTS).
	NodeAccounts []string
	// RenewByTokens is set if certificates do not prove who asks for the next one (the opposite of
	// LATEEN_RENEW_BY_CERTIFICATE, true).
	RenewByTokens bool
	// AllClusters gives gateways the clusters of all services that are exported to them, not only
	// those that their routes name (the opposite of PILOT_FILTER_GATEWAY_CLUSTER_CONFIG, true).
	AllClusters bool
	// OwnGateways leaves gateways the Gateways of Istio's API in their own namespace alone
	// (PILOT_SCOPE_GATEWAY_TO_NAMESPACE, false).
	OwnGateways bool
	// HTTP10 lets all proxies take HTTP/1.0, not only those whose metadata says so (PILOT_HTTP10,
	// false).
	HTTP10 bool
	// RemoteAddress makes sidecars take the address of a workload's connection for the client's
	// (PILOT_SIDECAR_USE_REMOTE_ADDRESS, false).
	RemoteAddress bool
	// Sampling is how many requests are traced where nothing else says so, in hundredths of a
	// percent (PILOT_TRACE_SAMPLING); nil leaves Istio's default, one percent.
	Sampling *uint32
	// NoDebugPages closes the pages below /debug over HTTP (the opposite of ENABLE_DEBUG_ON_HTTP,
	// true). Over xDS callers with an identity still get them.
	NoDebugPages bool
	// BlockedKeyNetworks are networks from which keys may not be fetched, whatever else allows it
	// (BLOCKED_CIDRS_IN_JWKS_URIS, none).
	BlockedKeyNetworks []netip.Prefix
	// DualStack lets proxies with addresses of both families listen on both, and call endpoints at
	// either (ISTIO_DUAL_STACK, false).
	DualStack bool
	// WholeRoutes and WholeEndpoints turn VHDS and LEDS off: all proxies get whole route tables and
	// whole lists of endpoints (the opposites of LATEEN_ENABLE_VHDS and LATEEN_ENABLE_LEDS, true).
	WholeRoutes, WholeEndpoints bool
	// WholeListeners has policies stand in the listeners of all proxies, where istioctl looks for
	// them (the opposite of LATEEN_ENABLE_FILTER_LISTS, true).
	WholeListeners bool
	// AutoPrefix4 and AutoPrefix6 are the networks from which hosts of ServiceEntries get addresses
	// (PILOT_IP_AUTOALLOCATE_IPV4_PREFIX, 240.240.0.0/16; PILOT_IP_AUTOALLOCATE_IPV6_PREFIX,
	// 2001:2::/48).
	AutoPrefix4, AutoPrefix6 netip.Prefix
	// KeyRefresh is how long fetched keys of token issuers are good until they are fetched
	// again (PILOT_JWT_PUB_KEY_REFRESH_INTERVAL, 20m).
	KeyRefresh time.Duration
	// KeyNetworks are networks that are not public, and from which keys may be fetched
	// (LATEEN_JWKS_PRIVATE_NETWORKS, none).
	KeyNetworks []netip.Prefix
	// IngressNamespace is the namespace of the Ingress gateways' Service (K8S_INGRESS_NS; empty
	// stands for the root namespace).
	IngressNamespace string
	// SecretNamespaces are the only namespaces of which Secrets are read
	// (LATEEN_SECRET_NAMESPACES; empty stands for all that are selected).
	SecretNamespaces []string
	// Inject is set if Pods get their proxies here (INJECT_ENABLED, true).
	Inject bool
	// NativeSidecars says whether proxies are init containers (ENABLE_NATIVE_SIDECARS, auto: if the
	// cluster supports it).
	NativeSidecars string
	// Status is set if the conditions of Istio's objects are written (PILOT_ENABLE_STATUS, true).
	Status bool
	// DeployGateways is set if Gateways of the Gateway API are deployed
	// (PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER, true).
	DeployGateways bool
	// RegisterMachines is set if machines outside of Kubernetes get a WorkloadEntry when they
	// connect (PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION, true), TakeHealth if what their agents
	// tell of their workloads is written into it (PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS, true).
	RegisterMachines, TakeHealth bool
	// MachineGrace is how long a machine may be gone until its WorkloadEntry is removed
	// (PILOT_WORKLOAD_ENTRY_GRACE_PERIOD, 10s).
	MachineGrace time.Duration
}

// FromEnv reads the settings through lookup, which is os.LookupEnv in a process. The error of an
// invalid value names the variable, the value and what would be right.
func FromEnv(lookup func(string) (string, bool)) (Config, error) {
	r := reader{lookup: lookup}
	c := Config{
		DebounceAfter:        read(&r, "PILOT_DEBOUNCE_AFTER", 100*time.Millisecond, duration),
		DebounceMax:          read(&r, "PILOT_DEBOUNCE_MAX", 10*time.Second, duration),
		DebounceMoves:        read(&r, "LATEEN_DEBOUNCE_MOVES", 2*time.Second, duration),
		EDSDebounce:          read(&r, "PILOT_ENABLE_EDS_DEBOUNCE", true, boolean),
		SendUnhealthy:        read(&r, "PILOT_SEND_UNHEALTHY_ENDPOINTS", false, boolean),
		OwnHostsOnly:         !read(&r, "LATEEN_ROUTES_FOR_HOSTS_OF_OTHERS", true, boolean),
		Sessions:             read(&r, "PILOT_ENABLE_PERSISTENT_SESSION_FILTER", false, boolean),
		PushThrottle:         read(&r, "PILOT_PUSH_THROTTLE", 0, count),
		MaxRequestsPerSecond: read(&r, "PILOT_MAX_REQUESTS_PER_SECOND", 0, rate),
		SendTimeout:          read(&r, "PILOT_XDS_SEND_TIMEOUT", 0, duration),
		StreamsPerAddress:    read(&r, "LATEEN_MAX_STREAMS_PER_ADDRESS", 2048, count),
		MaxRecvMsgSize:       read(&r, "ISTIO_GPRC_MAXRECVMSGSIZE", 8<<20, count),
		HistoryBytes:         read(&r, "LATEEN_HISTORY_BYTES", 32<<20, count),
		HistoryDir:           read(&r, "LATEEN_HISTORY_DIR", "", directory),
		ChangeWarnsAt:        read(&r, "LATEEN_CHANGE_WARNS_AT", 0, count),
		ChangeRefusedAt:      read(&r, "LATEEN_CHANGE_REFUSED_AT", 0, count),
		TokenAudiences:       read(&r, "TOKEN_AUDIENCES", []string{"istio-ca"}, words),
		CA:                   read(&r, "ENABLE_CA_SERVER", true, boolean),
		ExternalCA:           read(&r, "EXTERNAL_CA", false, externalCA),
		Signer:               read(&r, "K8S_SIGNER", "", signer),
		SignerDomain:         read(&r, "CERT_SIGNER_DOMAIN", "", objectName),
		ServingSigner:        read(&r, "PILOT_CERT_PROVIDER", "", servingSigner),
		WorkloadCertTTL:      read(&r, "DEFAULT_WORKLOAD_CERT_TTL", 24*time.Hour, lifetime),
		MaxWorkloadCertTTL:   read(&r, "MAX_WORKLOAD_CERT_TTL", 90*24*time.Hour, lifetime),
		RootsName:            read(&r, "PILOT_CA_CERT_CONFIGMAP", "istio-ca-root-cert", objectName),
		IgnoreRevoked:        !read(&r, "PILOT_ENABLE_CA_CRL", true, boolean),
		Compliance:           read(&r, "COMPLIANCE_POLICY", compliance.None, compliance.Parse),
		NodeAccounts:         read(&r, "CA_TRUSTED_NODE_ACCOUNTS", nil, accounts),
		RenewByTokens:        !read(&r, "LATEEN_RENEW_BY_CERTIFICATE", true, boolean),
		AllClusters:          !read(&r, "PILOT_FILTER_GATEWAY_CLUSTER_CONFIG", true, boolean),
		OwnGateways:          read(&r, "PILOT_SCOPE_GATEWAY_TO_NAMESPACE", false, boolean),
		HTTP10:               read(&r, "PILOT_HTTP10", false, boolean),
		RemoteAddress:        read(&r, "PILOT_SIDECAR_USE_REMOTE_ADDRESS", false, boolean),
		Sampling:             read(&r, "PILOT_TRACE_SAMPLING", nil, percent),
		NoDebugPages:         !read(&r, "ENABLE_DEBUG_ON_HTTP", true, boolean),
		BlockedKeyNetworks:   read(&r, "BLOCKED_CIDRS_IN_JWKS_URIS", nil, networks),
		DualStack:            read(&r, "ISTIO_DUAL_STACK", false, boolean),
		WholeRoutes:          !read(&r, "LATEEN_ENABLE_VHDS", true, boolean),
		WholeEndpoints:       !read(&r, "LATEEN_ENABLE_LEDS", true, boolean),
		WholeListeners:       !read(&r, "LATEEN_ENABLE_FILTER_LISTS", true, boolean),
		KeyRefresh:           read(&r, "PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", 20*time.Minute, lifetime),
		KeyNetworks:          read(&r, "LATEEN_JWKS_PRIVATE_NETWORKS", nil, networks),
		AutoPrefix4: read(&r, "PILOT_IP_AUTOALLOCATE_IPV4_PREFIX", netip.MustParsePrefix("240.240.0.0/16"),
			network(netip.Addr.Is4)),
		AutoPrefix6: read(&r, "PILOT_IP_AUTOALLOCATE_IPV6_PREFIX", netip.MustParsePrefix("2001:2::/48"),
			network(netip.Addr.Is6)),
		IngressNamespace: read(&r, "K8S_INGRESS_NS", "", namespace),
		SecretNamespaces: read(&r, "LATEEN_SECRET_NAMESPACES", nil, namespaces),
		Inject:           read(&r, "INJECT_ENABLED", true, boolean),
		NativeSidecars:   read(&r, "ENABLE_NATIVE_SIDECARS", "auto", native),
		Status:           read(&r, "PILOT_ENABLE_STATUS", true, boolean),
		DeployGateways:   read(&r, "PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", true, boolean),
		RegisterMachines: read(&r, "PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION", true, boolean),
		TakeHealth:       read(&r, "PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS", true, boolean),
		MachineGrace:     read(&r, "PILOT_WORKLOAD_ENTRY_GRACE_PERIOD", 10*time.Second, duration),
	}
	early, steady := 20*time.Millisecond, 150*time.Millisecond
	if isSet(lookup, "PILOT_DEBOUNCE_AFTER") {
		early, steady = 0, 0 // who sets a quiet period means that one
	}
	if isSet(lookup, "PILOT_DEBOUNCE_MAX") {
		steady = 0
	}
	c.DebounceSteady = read(&r, "LATEEN_DEBOUNCE_STEADY", steady, duration)
	c.DebounceEarly = read(&r, "LATEEN_DEBOUNCE_EARLY", early, duration)
	c.ServingSigner = cmp.Or(c.ServingSigner, c.Signer)
	if r.err == nil && c.ExternalCA && c.Signer == "" && c.SignerDomain == "" {
		return c, fmt.Errorf("environment variable EXTERNAL_CA = %q: no signer of proxies is named; want K8S_SIGNER "+
			"or CERT_SIGNER_DOMAIN", externalKubernetes)
	}
	return c, r.err
}

func isSet(lookup func(string) (string, bool), name string) bool {
	value, ok := lookup(name)
	return ok && value != ""
}

type reader struct {
	lookup func(string) (string, bool)
	err    error
}

func read[T any](r *reader, name string, standard T, parse func(string) (T, error)) T {
	text, ok := r.lookup(name)
	if !ok || text == "" {
		return standard
	}
	v, err := parse(text)
	if err != nil {
		if r.err == nil {
			r.err = fmt.Errorf("environment variable %s = %q: %w", name, text, err)
		}
		return standard
	}
	return v
}

func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("want a duration such as 100ms or 2.5s")
	}
	return d, nil
}

// networks reads networks.
func networks(s string) ([]netip.Prefix, error) {
	all, err := words(s)
	var out []netip.Prefix
	for _, text := range all {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			return nil, fmt.Errorf("want networks as 10.0.0.0/8, with commas between them")
		}
		out = append(out, p)
	}
	return out, err
}

// percent reads a percentage, in hundredths of a percent.
func percent(s string) (*uint32, error) {
	p, err := strconv.ParseFloat(s, 64)
	if err != nil || !(p >= 0 && p <= 100) {
		return nil, fmt.Errorf("want a percentage from 0 to 100, such as 0.5")
	}
	hundredths := uint32(math.Round(p * 100))
	return &hundredths, nil
}

// lifetime reads how long something may be used.
func lifetime(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Minute {
		return 0, fmt.Errorf("want a duration of a minute at least, such as 24h")
	}
	return d, nil
}

// accounts reads service accounts.
func accounts(s string) ([]string, error) {
	all, err := words(s)
	for _, account := range all {
		space, name, ok := strings.Cut(account, "/")
		if !ok || len(validation.IsDNS1123Label(space)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return nil, fmt.Errorf("want service accounts as namespace/name, with commas between them")
		}
	}
	return all, err
}

// network reads a network of a family of addresses.
func network(isFamily func(netip.Addr) bool) func(string) (netip.Prefix, error) {
	return func(s string) (netip.Prefix, error) {
		p, err := netip.ParsePrefix(s)
		if err != nil || !isFamily(p.Addr()) || p.Addr().Is4In6() || p.Addr().BitLen()-p.Bits() < 3 {
			return netip.Prefix{}, fmt.Errorf("want a network of its family with at least 3 bits for hosts, " +
				"such as 240.240.0.0/16 or 2001:2::/48")
		}
		return p.Masked(), nil
	}
}

// externalKubernetes is the one value of EXTERNAL_CA.
const externalKubernetes = "ISTIOD_RA_KUBERNETES_API"

func externalCA(s string) (bool, error) {
	if s != externalKubernetes {
		return false, fmt.Errorf("want %s; for an authority that proxies ask themselves, set their CA_ADDR",
			externalKubernetes)
	}
	return true, nil
}

// signer reads the name of a signer of Kubernetes.
func signer(s string) (string, error) {
	domain, path, ok := strings.Cut(s, "/")
	if !ok || path == "" || len(validation.IsDNS1123Subdomain(domain)) > 0 {
		return "", fmt.Errorf("want the name of a signer, such as example.com/mesh")
	}
	return s, nil
}

// servingSigner reads who signs the control plane's own certificate. Where that is no signer of
// Kubernetes, flags say so.
func servingSigner(s string) (string, error) {
	if name, ok := strings.CutPrefix(s, "k8s.io/"); ok {
		return signer(name)
	}
	return "", nil
}

// words reads a list with commas.
func words(s string) ([]string, error) {
	var all []string
	for word := range strings.SplitSeq(s, ",") {
		if word = strings.TrimSpace(word); word != "" {
			all = append(all, word)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("want names with commas between them")
	}
	return all, nil
}

// namespace reads the name of a namespace (RFC 1123 label).
func namespace(s string) (string, error) {
	if problems := validation.IsDNS1123Label(s); len(problems) > 0 {
		return "", fmt.Errorf("want the name of a namespace")
	}
	return s, nil
}

// namespaces reads a list of namespaces.
func namespaces(s string) ([]string, error) {
	all, err := words(s)
	for _, name := range all {
		if len(validation.IsDNS1123Label(name)) > 0 {
			return nil, fmt.Errorf("want names of namespaces with commas between them")
		}
	}
	return all, err
}

// objectName reads the name of an object (RFC 1123 subdomain).
func objectName(s string) (string, error) {
	if len(validation.IsDNS1123Subdomain(s)) > 0 {
		return "", fmt.Errorf("want the name of an object")
	}
	return s, nil
}

func boolean(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, fmt.Errorf("want true or false")
	}
	return b, nil
}

func directory(s string) (string, error) {
	if !filepath.IsAbs(s) {
		return "", fmt.Errorf("want an absolute path, as /var/lib/lateen")
	}
	return filepath.Clean(s), nil
}

func count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("want a whole number, 0 or greater")
	}
	return n, nil
}

func rate(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 0) {
		return 0, fmt.Errorf("want a number, 0 or greater")
	}
	return f, nil
}

func native(s string) (string, error) {
	switch s {
	case "true", "false", "auto":
		return s, nil
	}
	return "", fmt.Errorf("want true, false, or auto: if the cluster supports them")
}
