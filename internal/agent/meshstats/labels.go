package meshstats

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// unknown is Istio's word for a label that nobody knows.
const unknown = "unknown"

// The escapes of label values in the text format.
var (
	escape   = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
)

// labels are those of a series.
type labels struct {
	text string
	// uncounted says of durations that they do not count requests.
	uncounted bool
}

// labelsOf returns Istio's labels of a metric for the tags of a statistic: without those that a
// Telemetry removes, and with those that it sets.
func labelsOf(metric string, s sample, self Self) (*labels, bool) {
	request := !strings.HasPrefix(metric, "istio_tcp_")
	read := proxystats.ParseConnection
	if request {
		read = proxystats.ParseRequest
	}
	f, ok := read(s.fields)
	if !ok {
		return nil, false
	}
	l := labelText{without: f.Without, custom: s.custom}
	c := callOf(f, self)
	l.add("reporter", c.reporter)
	l.workload("source", c.source, c.sourcePrincipal)
	l.workload("destination", c.destination, c.destinationPrincipal)
	l.add("destination_service", c.service.host)
	l.add("destination_service_name", c.service.name)
	l.add("destination_service_namespace", c.service.namespace)
	if request {
		l.add("request_protocol", protocolOf(f))
		l.add(proxystats.CodeLabel, cmp.Or(f.Code, "0"))
		l.addRaw("grpc_response_status", f.GRPC)
	} else {
		l.add("request_protocol", "tcp")
	}
	l.add(proxystats.FlagsLabel, cmp.Or(f.Flags, "-"))
	l.add("connection_security_policy", c.security)
	for _, tag := range s.custom {
		l.write(tag.name, cmp.Or(tag.value, unknown))
	}
	return &labels{text: l.b.String(), uncounted: f.Uncounted}, true
}

// protocolOf tells gRPC by its status, which Envoy knows for requests of gRPC alone.
func protocolOf(f proxystats.Fields) string {
	if f.GRPC != "" {
		return "grpc"
	}
	return "http"
}

// call is both sides of what is counted.
type call struct {
	reporter                              string
	source, destination                   proxystats.Workload
	sourcePrincipal, destinationPrincipal string
	service                               service
	security                              string
}

func callOf(f proxystats.Fields, self Self) call {
	peer, own := f.Peer, self.Principal
	if f.PeerPrincipal == "" {
		own = "" // not in mutual TLS, where nobody has an identity
	}
	if peer.Name != "" {
		peer.Cluster = cmp.Or(peer.Cluster, self.Workload.Cluster)
	}
	if f.By == proxystats.Source {
		return call{
			reporter: "source", security: unknown,
			source: self.Workload, sourcePrincipal: own,
			destination: peer, destinationPrincipal: f.PeerPrincipal,
			service: serviceCalled(f.Service, peer.Namespace),
		}
	}
	c := call{
		reporter: "destination", security: "none",
		source: proven(peer, f.PeerPrincipal), sourcePrincipal: f.PeerPrincipal,
		destination: self.Workload, destinationPrincipal: own,
		service: serviceOf(proxystats.ServiceHost(f.Service), self.Workload.Namespace),
	}
	if f.PeerPrincipal != "" {
		c.security = "mutual_tls"
	}
	return c
}

// proven returns what a peer says of itself, as far as its identity allows: a workload of another
// namespace than the certificate's is not believed. Without a word of it the namespace is that of
// the identity.
func proven(peer proxystats.Workload, principal string) proxystats.Workload {
	namespace := namespaceOf(principal)
	if namespace == "" || peer.Namespace != namespace {
		return proxystats.Workload{Namespace: namespace}
	}
	return peer
}

// namespaceOf returns that of an identity, "spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT".
func namespaceOf(principal string) string {
	_, rest, ok := strings.Cut(principal, "/ns/")
	if !ok {
		return ""
	}
	namespace, _, ok := strings.Cut(rest, "/sa/")
	if !ok {
		return ""
	}
	return namespace
}

// service is the labels of the service that is called.
type service struct{ host, name, namespace string }

// serviceCalled returns the service of a cluster. Clusters that stand for no service are one by
// name alone, as in Istio.
func serviceCalled(cluster, namespace string) service {
	if host := proxystats.ServiceHost(cluster); host != "" {
		return serviceOf(host, namespace)
	}
	return service{name: cluster}
}

// serviceOf splits the host of a Kubernetes Service. Others are their own names, in the namespace
// of the workload that serves them.
func serviceOf(host, namespace string) service {
	parts := strings.SplitN(host, ".", 3)
	if len(parts) == 3 && (parts[2] == "svc" || strings.HasPrefix(parts[2], "svc.")) {
		return service{host, parts[0], parts[1]}
	}
	if host == "" {
		return service{}
	}
	return service{host, host, namespace}
}

// labelText is labels as they stand between braces.
type labelText struct {
	b       strings.Builder
	without []string
	custom  []label
}

func (l *labelText) add(name, value string) { l.addRaw(name, cmp.Or(value, unknown)) }

// addRaw adds one of Istio's labels, which may be empty.
func (l *labelText) addRaw(name, value string) {
	set := func(c label) bool { return c.name == name }
	if !slices.Contains(l.without, name) && !slices.ContainsFunc(l.custom, set) {
		l.write(name, value)
	}
}

func (l *labelText) write(name, value string) {
	if l.b.Len() > 0 {
		l.b.WriteByte(',')
	}
	l.b.WriteString(name)
	l.b.WriteString(`="`)
	_, _ = escape.WriteString(&l.b, strings.ToValidUTF8(value, "_"))
	l.b.WriteByte('"')
}

func (l *labelText) workload(side string, w proxystats.Workload, principal string) {
	l.add(side+"_workload", w.Name)
	l.add(side+"_workload_namespace", w.Namespace)
	l.add(side+"_principal", principal)
	l.add(side+"_app", w.App)
	l.add(side+"_version", w.Version)
	l.add(side+"_canonical_service", w.CanonicalName)
	l.add(side+"_canonical_revision", w.CanonicalRevision)
	l.add(side+"_cluster", w.Cluster)
}
