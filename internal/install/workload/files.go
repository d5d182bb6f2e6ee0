package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	"sigs.k8s.io/yaml"
)

// Machine is what one machine, or all of a group, are configured with.
type Machine struct {
	Group *networkingv1.WorkloadGroup
	// Defaults is defaultConfig of the mesh configuration, as JSON has it; it may be nil.
	Defaults map[string]any
	// TrustDomain of the mesh.
	TrustDomain string
	// ClusterID is that of the control plane (--cluster-id), and Network the machine's, which is
	// often empty.
	ClusterID, Network string
	// Discovery is where the agent finds the control plane, "host:port".
	Discovery string
	// ControlPlane is the address of that host, where DNS does not know it; the zero Addr
	// otherwise.
	ControlPlane netip.Addr
	// Address is the machine's own, where its agent cannot know at which the mesh reaches it.
	Address netip.Addr
	// Registers is set if the machine registers itself; else somebody writes its WorkloadEntry.
	Registers bool
	// CaptureDNS has the agent answer the machine's DNS.
	CaptureDNS bool
	Revision   string // of the control plane; empty stands for "default"
	Roots      []byte // of the mesh, in PEM
	Token      string // of the service account
}

// FileModes are those of Files that others may not read; all others are 0644.
const (
	PublicMode = 0o644
	SecretMode = 0o600
)

// File is one of Machine.Files.
type File struct {
	Name    string
	Content []byte
	Mode    uint32
	// Place is where the agent looks for it.
	Place string
}

const (
	canonicalName     = "service.istio.io/canonical-name"
	canonicalRevision = "service.istio.io/canonical-revision"
	revisionLabel     = "istio.io/rev"
	// keepOut are ports whose connections are not redirected: SSH, and those of the proxy itself.
	keepOut = "22,15090,15021,15020"
)

// Files returns the files of a machine, in the order in which it needs them.
func (m Machine) Files() ([]File, error) {
	variables, err := m.variables()
	if err != nil {
		return nil, err
	}
	mesh, err := m.meshConfig(variables)
	if err != nil {
		return nil, err
	}
	files := []File{
		{"cluster.env", environment(variables), PublicMode, "/var/lib/istio/envoy/cluster.env"},
		{"mesh.yaml", mesh, PublicMode, "/etc/istio/config/mesh"},
		{"root-cert.pem", m.Roots, PublicMode, "/etc/certs/root-cert.pem"},
		{"istio-token", []byte(m.Token), SecretMode, "/var/run/secrets/tokens/istio-token"},
		{"hosts", m.hosts(), PublicMode, "the lines of /etc/hosts"},
		{"lateen-agent.service", []byte(unit), PublicMode, "/etc/systemd/system/lateen-agent.service"},
	}
	return files, nil
}

// labels are those by which services and policies select the machine. As with istioctl, those of
// the template come before those of the metadata.
func (m Machine) labels() map[string]string {
	all := map[string]string{}
	maps.Copy(all, m.Group.Spec.GetMetadata().GetLabels())
	maps.Copy(all, m.Group.Spec.GetTemplate().GetLabels())
	all[canonicalName] = cmp.Or(all[canonicalName], all["app.kubernetes.io/name"], all["app"], m.Group.Name)
	all[canonicalRevision] = cmp.Or(all[canonicalRevision], all["app.kubernetes.io/version"], all["version"], "latest")
	if m.Revision != "" && m.Revision != "default" {
		all[revisionLabel] = m.Revision
	}
	return all
}

// variables are the agent's, by istioctl's names.
func (m Machine) variables() (map[string]string, error) {
	labels := m.labels()
	encoded, err := json.Marshal(labels)
	if err != nil {
		return nil, err
	}
	group, template := m.Group, m.Group.Spec.GetTemplate()
	all := map[string]string{
		"CA_ADDR":                   m.Discovery,
		"CANONICAL_REVISION":        labels[canonicalRevision],
		"CANONICAL_SERVICE":         labels[canonicalName],
		"ISTIO_INBOUND_PORTS":       inboundPorts(template.GetPorts()),
		"ISTIO_LOCAL_EXCLUDE_PORTS": keepOut,
		"ISTIO_METAJSON_LABELS":     string(encoded),
		"ISTIO_META_CLUSTER_ID":     m.ClusterID,
		"ISTIO_META_NETWORK":        m.Network,
		"ISTIO_META_WORKLOAD_NAME":  group.Name,
		"ISTIO_NAMESPACE":           group.Namespace,
		"ISTIO_SERVICE":             group.Name + "." + group.Namespace,
		"ISTIO_SERVICE_CIDR":        "*",
		"POD_NAMESPACE":             group.Namespace,
		"SERVICE_ACCOUNT":           template.GetServiceAccount(),
		"TRUST_DOMAIN":              m.TrustDomain,
	}
	if m.CaptureDNS { // else the mesh configuration says
		all["ISTIO_META_DNS_CAPTURE"] = "true"
	}
	if m.Registers {
		all["ISTIO_META_AUTO_REGISTER_GROUP"] = group.Name
	}
	if m.Address.IsValid() {
		all["ISTIO_SVC_IP"], all["INSTANCE_IP"] = m.Address.String(), m.Address.String()
	}
	for name, value := range all {
		if strings.ContainsAny(value, "'\n\r") {
			return nil, fmt.Errorf("%s = %q has a character that a file of variables cannot have", name, value)
		}
	}
	return all, nil
}

// inboundPorts are those at which connections are redirected; all where the group names none.
func inboundPorts(ports map[string]uint32) string {
	if len(ports) == 0 {
		return "*"
	}
	numbers := slices.Sorted(maps.Values(ports))
	text := make([]string, len(numbers))
	for i, n := range numbers {
		text[i] = strconv.FormatUint(uint64(n), 10)
	}
	return strings.Join(slices.Compact(text), ",")
}

// environment is a file that a shell and systemd read.
func environment(variables map[string]string) []byte {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		fmt.Fprintf(&b, "%s='%s'\n", name, variables[name])
	}
	return []byte(b.String())
}

// meshConfig is the file from which the agent reads defaultConfig.
func (m Machine) meshConfig(variables map[string]string) ([]byte, error) {
	config := maps.Clone(m.Defaults)
	if config == nil {
		config = map[string]any{}
	}
	config["discoveryAddress"] = m.Discovery
	metadata, _ := config["proxyMetadata"].(map[string]any)
	merged := maps.Clone(metadata)
	if merged == nil {
		merged = map[string]any{}
	}
	for name, value := range variables {
		merged[name] = value
	}
	config["proxyMetadata"] = merged
	if probe := m.Group.Spec.GetProbe(); probe != nil {
		encoded, err := protojson.Marshal(probe)
		if err != nil {
			return nil, err
		}
		config["readinessProbe"] = json.RawMessage(encoded)
	}
	return yaml.Marshal(map[string]any{"defaultConfig": config})
}

func (m Machine) hosts() []byte {
	if !m.ControlPlane.IsValid() {
		return nil
	}
	host, _, _ := strings.Cut(m.Discovery, ":")
	return fmt.Appendf(nil, "%s %s\n", m.ControlPlane, host)
}

// unit starts the agent by systemd, once the others are in their places. %l is the machine's name.
const unit = `[Unit]
Description=Envoy and its agent
Documentation=https://istio.io/latest/docs/ops/deployment/vm-architecture/
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
User=istio-proxy
Group=istio-proxy
WorkingDirectory=/
Environment=POD_NAME=%l PROV_CERT=/etc/certs OUTPUT_CERTS=/etc/certs
EnvironmentFile=/var/lib/istio/envoy/cluster.env
ExecStartPre=+/usr/bin/install -d -o istio-proxy -m 0755 /var/run/secrets /etc/istio/proxy /var/lib/istio/data
ExecStartPre=+/usr/local/bin/lateen-agent istio-iptables -p 15001 -z 15006 -u 1337 -m REDIRECT \
  -i ${ISTIO_SERVICE_CIDR} -b ${ISTIO_INBOUND_PORTS} -d ${ISTIO_LOCAL_EXCLUDE_PORTS}
ExecStart=/usr/local/bin/lateen-agent proxy sidecar
ExecStopPost=+/usr/local/bin/lateen-agent istio-iptables --cleanup-only
KillMode=mixed
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
`
