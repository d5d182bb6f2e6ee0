package settings

import (
	"io/fs"
	"log/slog"
	"net/netip"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// EnvoyStatsPath is where the agent serves the metrics of Envoy alone, on its status port.
const EnvoyStatsPath = "/stats/envoy"

// Sources are what settings are read from.
type Sources struct {
	Args       []string // those of the command "proxy": the type of proxy and flags
	Environ    []string // as os.Environ has it
	Files      fs.FS    // the working directory, which Istio's paths are relative to
	Interfaces []Interface
	Gateways   []netip.Addr // of the machine's default routes
}

// Interface is a network interface of the machine.
type Interface struct {
	Name      string
	Addresses []netip.Addr
}

// Settings is all that the agent is told. Nobody writes to it once Read has returned.
type Settings struct {
	Node         Node
	Envoy        Envoy
	ControlPlane ControlPlane
	CA           CA
	DNS          DNS
	Status       Status
	Readiness    *Readiness // of the workload; nil if the agent does not probe it
	Wasm         Wasm
	Log          Log
	// Compliance limits TLS to the control plane (COMPLIANCE_POLICY).
	Compliance compliance.Policy

	// Notices say what was set and is left out, a sentence each.
	Notices []string
}

// Type is the kind of proxy, the first part of its node id.
type Type string

// The kinds of proxies that the agent runs.
const (
	Sidecar Type = "sidecar"
	Router  Type = "router"
)

// Node says who the proxy is.
type Node struct {
	Type           Type
	Pod, Namespace string
	ServiceAccount string
	Domain         string       // as "default.svc.cluster.local"
	Addresses      []netip.Addr // that of the Pod first; never empty
	Cluster        string       // Envoy's service cluster
	ClusterID      string       // ISTIO_META_CLUSTER_ID
	TrustDomain    string
	Locality       Locality
	Labels         map[string]string
	// TemplateHash is the label of a Deployment's Pods that Labels leave out.
	TemplateHash string
	Annotations  map[string]string
	// Metadata is what the node tells the control plane, ready to be encoded as JSON.
	Metadata map[string]any
}

// ID is the node id in Istio's form: type~address~pod.namespace~domain.
func (n Node) ID() string {
	return string(n.Type) + "~" + n.Addresses[0].String() + "~" + n.Pod + "." + n.Namespace + "~" + n.Domain
}

// Workload names the Pod's workload, as Istio's metrics do.
func (n Node) Workload() proxystats.Workload {
	owner, _ := n.Metadata["WORKLOAD_NAME"].(string)
	w := proxystats.Of(proxystats.Pod{
		Namespace: n.Namespace, Name: n.Pod, Owner: owner, Label: func(key string) string {
			if key == templateHash {
				return n.TemplateHash
			}
			return n.Labels[key]
		},
	})
	w.Cluster = n.ClusterID
	return w
}

// Principal is the identity in the Pod's certificate.
func (n Node) Principal() string {
	return "spiffe://" + n.TrustDomain + "/ns/" + n.Namespace + "/sa/" + n.ServiceAccount
}

// IPv6 reports whether the Pod has addresses of IPv6 alone.
func (n Node) IPv6() bool {
	for _, a := range n.Addresses {
		if a.Is4() {
			return false
		}
	}
	return true
}

// Loopback is where the agent and Envoy meet, in the Pod's family of addresses.
func (n Node) Loopback() netip.Addr {
	if n.IPv6() {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// Locality is where the proxy runs.
type Locality struct{ Region, Zone, SubZone string }

// Envoy says how Envoy is started and ended. Paths may be relative to the working directory.
type Envoy struct {
	Binary      string
	ConfigDir   string // ProxyConfig.configPath: the bootstrap and the socket of xDS are in it
	Concurrency int    // 0 for a worker per processor
	// AdminName is chosen at each start, so that no route can name the socket.
	AdminName   string
	AdminPort   uint16 // the agent's, on loopback: what comes there is passed on to Envoy
	StatusPort  uint16 // ENVOY_STATUS_PORT: readiness, through Envoy
	MetricsPort uint16 // ENVOY_PROMETHEUS_PORT: statistics of Envoy alone
	DrainTime   time.Duration
	// TerminationDrain is how long Envoy goes on after SIGTERM.
	TerminationDrain time.Duration
	// ExitOnZeroConnections ends Envoy when nobody is connected any more, after MinimumDrain, in
	// place of TerminationDrain.
	ExitOnZeroConnections bool
	MinimumDrain          time.Duration

	LogLevel, ComponentLogLevel string
	LogJSON                     bool
	SkipDeprecatedLogs          bool
	FlushInterval               time.Duration // of log files
	FlushKB                     uint32        // 0 for Envoy's default
	OutlierLogPath              string
	// Override is a part of a bootstrap as JSON that Envoy merges into the agent's; often empty.
	Override string

	RuntimeValues    map[string]string
	Stats            Stats
	MaxConnections   uint32 // of all clients together
	StatsCompression bool
	// SDSSocket is where Envoy gets its certificates from.
	SDSSocket string
	// Environ is what Envoy's environment has beside the agent's own, as "NAME=value".
	Environ []string
}

// Stats say which statistics Envoy keeps, beside those that the agent needs.
type Stats struct {
	Prefixes, Suffixes, Regexps []string
	ExtraTags                   []string
	// Service gets them by gRPC, "host:port"; empty for none.
	Service string
}

// XDSSocket is where the agent serves xDS to Envoy.
func (e Envoy) XDSSocket() string { return e.ConfigDir + "/XDS" }

// AdminSocket is where Envoy serves its admin interface to the agent, which passes on to it what
// comes to AdminPort.
func (e Envoy) AdminSocket() string { return e.ConfigDir + "/" + AdminPrefix + e.AdminName }

// AdminPrefix begins the names of such sockets.
const AdminPrefix = "admin-"

// Bootstrap is the file of Envoy's configuration.
func (e Envoy) Bootstrap() string { return e.ConfigDir + "/envoy-rev.json" }

// ControlPlane says where configuration comes from.
type ControlPlane struct {
	Address    string // host:port
	ServerName string // that its certificate has to have
	RootFile   string // empty for the machine's own roots
	TokenFile  string
	Headers    map[string]string // XDS_HEADER_*
	// Plaintext is ProxyConfig.controlPlaneAuthPolicy NONE: no TLS and no token, on this machine.
	Plaintext bool
	// LastConfig is the file in which the last configuration is kept, for a start without the
	// control plane.
	LastConfig string
}

// CA says where certificates come from, and what is asked for.
type CA struct {
	// Address is empty where nobody is asked: certificates are Mounted, or there are none because
	// the control plane is asked in plaintext.
	Address    string
	ServerName string
	RootFile   string // empty for the machine's own roots
	TokenFile  string
	Headers    map[string]string // CA_HEADER_*
	Signer     string            // ISTIO_META_CERT_SIGNER

	// MeshRoots is a file with further roots that peers are verified by; often empty.
	MeshRoots string
	// RevokedFile is a file with lists of revoked certificates, which need not be there.
	RevokedFile string
	// Mounted are certificates in files, in place of a CA's (FILE_MOUNTED_CERTS).
	Mounted CertificateFiles
	// Provisioned is the certificate by which a machine outside of Kubernetes proves itself once it
	// has one, in place of the token that it began with (PROV_CERT). It may not be there yet.
	Provisioned CertificateFiles
	// Output are files that certificates are written to (OUTPUT_CERTS).
	Output CertificateFiles

	TTL time.Duration
	// Grace is the part of a certificate's life that is left when it is renewed, moved by up to
	// Jitter in both directions.
	Grace, Jitter float64
	RSABits       int // 0 for ECDSA on P-256
	PKCS8         bool
}

// CertificateFiles are a certificate in files. The zero value is none.
type CertificateFiles struct{ Chain, Key, Root string }

// DNS says whether and how the agent answers DNS.
type DNS struct {
	Enabled  bool
	Address  string
	Parallel bool          // all upstream servers are asked at once
	Timeout  time.Duration // of an upstream server
}

// Status says what the agent itself serves.
type Status struct {
	Port uint16 // ProxyConfig.statusPort; 0 serves nothing
	// Probes are those of the application's containers by the path under which the kubelet asks.
	Probes map[string]Probe
	// ProbeLocalhost sends them to localhost in place of the Pod's address.
	ProbeLocalhost bool
	ProbeKeepAlive bool
	// Kubelet are the addresses from which hooks of containers are called, beside this machine's.
	Kubelet []netip.Prefix
	// Scrape are the application's metrics, merged with Envoy's and the agent's.
	Scrape      []ScrapeTarget
	MergeEnvoy  bool
	MetricsOnly bool // METRICS_LOCALHOST_ACCESS_ONLY: metrics for callers on this machine alone
}

// Wasm says how modules of Wasm filters are fetched.
type Wasm struct {
	// Enabled is set if the agent fetches them (ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION).
	Enabled bool
	Dir     string // of their files
	// MaxBytes is the largest module.
	MaxBytes              int64
	Expiry, PurgeInterval time.Duration
	RequestTimeout        time.Duration
	MaxRetries            int
	// Insecure are registries and servers whose certificates are not verified.
	Insecure []string
	// Registries are those that modules may be fetched from; all if there are none.
	Registries []string
	// Private are networks that are not public and may be called; Blocked may not be in any case.
	Private, Blocked []netip.Prefix
}

// Log says what the agent logs.
type Log struct {
	Level slog.Level
	JSON  bool
}
