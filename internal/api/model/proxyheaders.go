package model

// ProxyHeaders are the headers that proxies set of themselves (ProxyConfig.proxyHeaders). The zero
// value is what Istio's proxies do where nothing is said.
type ProxyHeaders struct {
	// Inbound is what a sidecar does with X-Forwarded-Client-Cert of the calls that it takes, where
	// SetsInbound is set; else it adds the client's certificate. Gateways go by GatewayTopology.
	Inbound     ClientCertHeader
	SetsInbound bool
	// Details are what the sidecar tells there of a client's certificate.
	Details ClientCertDetails
	// Server is the name in the header server, and KeepsServer leaves the application's, with none
	// where it has none.
	Server      string
	KeepsServer bool
	// NoRequestID makes no x-request-id, NoAttemptCount no x-envoy-attempt-count, and
	// NoEnvoyHeaders none of the other x-envoy-….
	NoRequestID, NoAttemptCount, NoEnvoyHeaders bool
	// KeepsCase writes the names of headers in HTTP/1 as they came, else in lower case.
	KeepsCase bool
	// ForwardedHost tells the host before a rewrite (x-forwarded-host), ForwardedPort the port that
	// the client called (x-forwarded-port).
	ForwardedHost, ForwardedPort bool
}

// ClientCertDetails are parts of a certificate. NoSubject, NoDNS and NoURI leave out what is told
// otherwise; Cert and Chain add the certificate and those behind it.
type ClientCertDetails struct{ NoSubject, NoDNS, NoURI, Cert, Chain bool }
