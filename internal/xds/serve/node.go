package serve

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// NodeType is the kind of proxy that a node claims to be: the first field of its id.
type NodeType string

// The kinds of proxies that Istio knows.
const (
	Sidecar      NodeType = "sidecar"
	Router       NodeType = "router"
	Waypoint     NodeType = "waypoint"
	Ztunnel      NodeType = "ztunnel"
	AgentGateway NodeType = "agentgateway"
)

var nodeTypes = []NodeType{Sidecar, Router, Waypoint, Ztunnel, AgentGateway}

// Node is what a proxy claims in its first request. What matters for security is checked against
// the stream's Identity.
type Node struct {
	// ID is the whole id, "sidecar~127.0.0.2~reviews-v1-0.default~default.svc.cluster.local".
	ID string
	// Type, Address, Name and DNSDomain are the fields of the id.
	Type      NodeType
	Address   netip.Addr
	Name      string // pod.namespace
	DNSDomain string
	// Pod and Namespace are the workload's. Namespace is that of the metadata, else the first label
	// of the DNS domain.
	Pod, Namespace string

	// Cluster is envoy's --service-cluster.
	Cluster  string
	Locality Locality
	// UserAgent is "envoy" for every stock Envoy.
	UserAgent string
	Release   Release
	// Delta is set by the server if the node's stream speaks the delta variant.
	Delta bool
	// IstioFilters is set if the proxy's Envoy has the filters of Istio's build for metrics.
	IstioFilters bool
	Metadata     Metadata
}

// Locality is where a node says it runs.
type Locality struct{ Region, Zone, SubZone string }

// nodeIDForm describes node ids in errors.
const nodeIDForm = `want "type~ip~pod.namespace~domain", ` +
	`as "sidecar~10.0.0.7~reviews-v1-0.default~default.svc.cluster.local"`

// ParseNode reads a node. Its errors say which field is wrong and what would be right.
func ParseNode(n *corev3.Node) (*Node, error) {
	if n.GetId() == "" {
		return nil, fmt.Errorf("the stream's first request has no node id; %s", nodeIDForm)
	}
	node, err := parseID(n.GetId())
	if err != nil {
		return nil, err
	}
	node.Cluster = n.GetCluster()
	node.UserAgent, node.Release = n.GetUserAgentName(), releaseOf(n)
	node.IstioFilters = hasIstioFilters(n)
	l := n.GetLocality()
	node.Locality = Locality{Region: l.GetRegion(), Zone: l.GetZone(), SubZone: l.GetSubZone()}
	if node.Metadata, err = parseMetadata(n.GetMetadata()); err != nil {
		return nil, fmt.Errorf("node %q: %w", n.GetId(), err)
	}
	node.Namespace = node.Metadata.Namespace
	if node.Namespace == "" {
		node.Namespace, _, _ = strings.Cut(node.DNSDomain, ".")
	}
	if node.Namespace == "" {
		return nil, fmt.Errorf("node %q has no namespace: metadata NAMESPACE is not set, and the id's domain is empty",
			n.GetId())
	}
	node.Pod = strings.TrimSuffix(node.Name, "."+node.Namespace)
	return node, nil
}

func parseID(id string) (*Node, error) {
	fields := strings.Split(id, "~")
	if len(fields) != 4 {
		return nil, fmt.Errorf("node id %q has %d fields between ~; %s", id, len(fields), nodeIDForm)
	}
	n := &Node{ID: id, Type: NodeType(fields[0]), Name: fields[2], DNSDomain: fields[3]}
	if !n.Type.isKnown() {
		return nil, fmt.Errorf("node id %q: type %q does not exist; want one of %s", id, n.Type, joinTypes())
	}
	var err error
	if n.Address, err = netip.ParseAddr(fields[1]); err != nil {
		return nil, fmt.Errorf("node id %q: %q is not an IP address; %s", id, fields[1], nodeIDForm)
	}
	if n.Name == "" {
		return nil, fmt.Errorf("node id %q: the pod's name is empty; %s", id, nodeIDForm)
	}
	return n, nil
}

func (t NodeType) isKnown() bool {
	for _, k := range nodeTypes {
		if t == k {
			return true
		}
	}
	return false
}

func joinTypes() string {
	names := make([]string, len(nodeTypes))
	for i, t := range nodeTypes {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}

// InterceptionMode is how traffic gets into the proxy.
type InterceptionMode string

// The modes that Istio knows.
const (
	Redirect InterceptionMode = "REDIRECT"
	TProxy   InterceptionMode = "TPROXY"
	None     InterceptionMode = "NONE"
)

// Metadata are the fields of a node's metadata that Istio's agent sends and that Lateen reads; each
// is named as there in capitals.
type Metadata struct {
	Namespace      string
	Labels         map[string]string
	ServiceAccount string
	ClusterID      string
	NodeName       string
	InstanceIPs    []netip.Addr
	IstioVersion   string

	InterceptionMode InterceptionMode // REDIRECT when not set
	HTTPProxyPort    uint16           // 0 when not set
	HTTP10           bool
	DNSCapture       bool
	EnvoyStatusPort  uint16
	LateenStats      string // the form of statistics that the proxy's agent reads; "" for none

	// raw is all that was sent, encoded: decoded it would take ten times the memory for each proxy,
	// and it is rarely read.
	raw []byte
}

// Topology is what a gateway says of what stands in front of it (ProxyConfig.gatewayTopology).
type Topology struct {
	TrustedProxies uint32
	ClientCert     string // forwardClientCertDetails
	ProxyProtocol  bool
}

// HasAgent reports whether Istio's agent wrote the proxy's bootstrap. The agent serves the proxy
// its certificate over SDS, by the static cluster sds-grpc. Such a bootstrap always has a port for
// the proxy's readiness, which its node reports.
func (m *Metadata) HasAgent() bool { return m.EnvoyStatusPort != 0 }

// Raw returns all that was sent, unknown keys too: EnvoyFilter's proxy match reads them. Each call
// decodes it.
func (m *Metadata) Raw() *structpb.Struct {
	if m.raw == nil {
		return nil
	}
	s := &structpb.Struct{}
	if err := proto.Unmarshal(m.raw, s); err != nil {
		return nil // what parseMetadata encoded decodes
	}
	return s
}

// Text returns an entry that is a text; "" for any other. Each call decodes what was sent.
func (m *Metadata) Text(key string) string { return m.Raw().GetFields()[key].GetStringValue() }

// GatewayTopology reads what a gateway states in PROXY_CONFIG, nil if it states nothing. Each call
// decodes what was sent: few proxies are gateways, and all would need the memory.
func (m *Metadata) GatewayTopology() (*Topology, error) {
	r := metadataReader{fields: m.Raw().GetFields()}
	out := r.topology(r.object("PROXY_CONFIG"))
	return out, r.err
}

// ownConfig is the annotation in which a Pod says how its own proxy is configured.
const ownConfig = "proxy.istio.io/config"

// OwnConfig returns what the node's Pod says in the annotation proxy.istio.io/config, empty if it
// says nothing. PROXY_CONFIG has it too, together with what the mesh said when the Pod was created.
func (m *Metadata) OwnConfig() string {
	if !bytes.Contains(m.raw, []byte(ownConfig)) {
		return "" // most Pods, for which nothing is decoded
	}
	return m.Raw().GetFields()["ANNOTATIONS"].GetStructValue().GetFields()[ownConfig].GetStringValue()
}

func parseMetadata(s *structpb.Struct) (Metadata, error) {
	r := metadataReader{fields: s.GetFields()}
	m := Metadata{
		Namespace:      r.text("NAMESPACE"),
		Labels:         r.texts("LABELS"),
		ServiceAccount: r.text("SERVICE_ACCOUNT"),
		ClusterID:      r.text("CLUSTER_ID"),
		NodeName:       r.text("NODE_NAME"),
		InstanceIPs:    r.addresses("INSTANCE_IPS"),
		IstioVersion:   r.text("ISTIO_VERSION"),

		InterceptionMode: r.mode("INTERCEPTION_MODE"),
		HTTPProxyPort:    r.port("HTTP_PROXY_PORT"),
		HTTP10:           r.flag("HTTP10"),
		DNSCapture:       r.flag("DNS_CAPTURE"),
		EnvoyStatusPort:  r.port("ENVOY_STATUS_PORT"),
		LateenStats:      r.text("LATEEN_STATS"),
	}
	if r.object("PROXY_CONFIG"); r.err != nil || s == nil {
		return m, r.err
	}
	var err error
	m.raw, err = proto.Marshal(s)
	return m, err
}
