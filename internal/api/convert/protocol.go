package convert

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// parseProtocol reads a protocol's name in Istio's API, in any case.
func parseProtocol(word string) (model.Protocol, bool) {
	switch strings.ToLower(word) {
	case "http", "http_proxy":
		return model.HTTP, true
	case "http2":
		return model.HTTP2, true
	case "grpc":
		return model.GRPC, true
	case "grpc-web":
		return model.GRPCWeb, true
	case "https", "tls":
		return model.TLS, true
	case "tcp", "mongo", "redis", "mysql":
		return model.TCP, true
	case "udp":
		return model.UDP, true
	}
	return model.Auto, false
}

const wantProtocol = "one of HTTP, HTTP2, GRPC, GRPC-WEB, HTTPS, TLS, TCP, MONGO, REDIS, MYSQL, UDP"

// ServicePortProtocol is Istio's protocol selection: the appProtocol if there is one, else the
// prefix of the port's name, else TCP for ports at which servers speak first.
func ServicePortProtocol(p corev1.ServicePort) model.Protocol {
	if p.Protocol == corev1.ProtocolUDP {
		return model.UDP
	}
	word := p.Name
	if p.AppProtocol != nil {
		word = *p.AppProtocol
		switch word {
		case "kubernetes.io/h2c":
			return model.HTTP2
		case "kubernetes.io/ws":
			return model.HTTP
		case "kubernetes.io/wss":
			return model.TLS
		}
	}
	if strings.HasPrefix(strings.ToLower(word), "grpc-web") {
		return model.GRPCWeb
	}
	prefix, _, _ := strings.Cut(word, "-")
	protocol, known := parseProtocol(prefix)
	if !known && serverSpeaksFirst(p.Port) {
		return model.TCP
	}
	return protocol
}

// serverSpeaksFirst reports whether on a port the server sends the first bytes, so that waiting for
// the client's would last forever: SMTP, DNS, MySQL and MongoDB.
func serverSpeaksFirst(port int32) bool {
	switch port {
	case 25, 53, 3306, 27017:
		return true
	}
	return false
}
