package adscript

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
)

// Secret is a certificate chain and its key, in PEM.
func Secret(name, certificate, key string) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(certificate), PrivateKey: inline(key),
	}}}
}

// TLSListener makes a listener terminate TLS with a secret that it asks for.
func TLSListener(l *listenerv3.Listener, secret string, fetch time.Duration) *listenerv3.Listener {
	l.GetFilterChains()[0].TransportSocket = tlsSocket(
		&tlsv3.DownstreamTlsContext{CommonTlsContext: tlsContext(secret, fetch)},
	)
	return l
}

// TLSCluster makes a cluster originate TLS with a client certificate that it asks for.
func TLSCluster(c *clusterv3.Cluster, secret string, fetch time.Duration) *clusterv3.Cluster {
	c.TransportSocket = tlsSocket(&tlsv3.UpstreamTlsContext{CommonTlsContext: tlsContext(secret, fetch)})
	return c
}

func tlsContext(secret string, fetch time.Duration) *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: secret, SdsConfig: overADS(fetch)}},
	}
}

func tlsSocket(context proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: mustAny(context)},
	}
}

func inline(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}
