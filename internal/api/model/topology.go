package model

// GatewayTopology is what stands in front of a gateway. The zero value is a gateway that clients
// call themselves.
type GatewayTopology struct {
	// TrustedProxies is how many proxies in front of the gateway are believed: the address of the
	// client is that one in X-Forwarded-For, counted from the right.
	TrustedProxies uint32
	// ClientCert is what becomes of the header X-Forwarded-Client-Cert.
	ClientCert ClientCertHeader
	// ProxyProtocol reads the address of the client from the PROXY protocol, which all connections
	// have to begin with.
	ProxyProtocol bool
}

// MaxTrustedProxies is how many trusted proxies a gateway may state.
const MaxTrustedProxies = 1 << 11

// StatedTopology is a GatewayTopology that a gateway states of itself, in two bytes, since each
// proxy has one. The zero value is none.
type StatedTopology uint16

// Stated returns the topology as one that a gateway states. TrustedProxies has to be less than
// MaxTrustedProxies.
func (t GatewayTopology) Stated() StatedTopology {
	stated := 1 | StatedTopology(t.ClientCert)<<2 | StatedTopology(t.TrustedProxies%MaxTrustedProxies)<<5
	if t.ProxyProtocol {
		stated |= 2
	}
	return stated
}

// Topology returns what is stated, and whether something is.
func (s StatedTopology) Topology() (t GatewayTopology, stated bool) {
	if s == 0 {
		return t, false
	}
	return GatewayTopology{
		TrustedProxies: uint32(s >> 5), ClientCert: ClientCertHeader(s >> 2 & 7), ProxyProtocol: s&2 != 0,
	}, true
}

// ClientCertHeader is what a gateway does with the header X-Forwarded-Client-Cert, by the names of
// Istio's API.
type ClientCertHeader uint8

const (
	// CertSanitizeSet replaces the header by the client's certificate, as long as nothing is set.
	CertSanitizeSet ClientCertHeader = iota
	// CertSanitize removes it.
	CertSanitize
	// CertForwardOnly passes on what a client in mutual TLS says.
	CertForwardOnly
	// CertAppendForward adds the client's certificate to what a client in mutual TLS says.
	CertAppendForward
	// CertAlwaysForwardOnly passes on what any client says.
	CertAlwaysForwardOnly
)

// ClientCertHeaders are the names of Istio's API, for errors.
const ClientCertHeaders = "SANITIZE, FORWARD_ONLY, APPEND_FORWARD, SANITIZE_SET or ALWAYS_FORWARD_ONLY"

// ClientCertHeaderOf returns what a name of Istio's API stands for.
func ClientCertHeaderOf(name string) (ClientCertHeader, bool) {
	switch name {
	case "", "UNDEFINED", "SANITIZE_SET":
		return CertSanitizeSet, true
	case "SANITIZE":
		return CertSanitize, true
	case "FORWARD_ONLY":
		return CertForwardOnly, true
	case "APPEND_FORWARD":
		return CertAppendForward, true
	case "ALWAYS_FORWARD_ONLY":
		return CertAlwaysForwardOnly, true
	}
	return CertSanitizeSet, false
}
