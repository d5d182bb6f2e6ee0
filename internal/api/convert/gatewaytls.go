package convert

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// serverTLS reads the settings of a server that speaks TLS. An error in them closes the server.
func (r *reader) serverTLS(p path, in *networking.ServerTLSSettings) *model.ServerTLS {
	if in == nil {
		r.fail(p, nil, "is missing; the server stays closed",
			"settings for TLS, as {mode: SIMPLE, credentialName: …}")
		return nil
	}
	out := &model.ServerTLS{AnyClient: in.GetInsecureSkipVerify().GetValue()}
	switch in.GetMode() {
	case networking.ServerTLSSettings_PASSTHROUGH:
	case networking.ServerTLSSettings_SIMPLE:
		out.Mode = model.ServerSimple
	case networking.ServerTLSSettings_MUTUAL:
		out.Mode = model.ServerMutual
	case networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		out.Mode = model.ServerOptionalMutual
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		out.Mode = model.ServerIstioMutual
	case networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		out.Mode = model.ServerAutoPassthrough
	default:
		r.fail(
			p.dot("mode"), in.GetMode(), "is no mode; the server stays closed",
			"SIMPLE, MUTUAL, OPTIONAL_MUTUAL, ISTIO_MUTUAL, PASSTHROUGH or AUTO_PASSTHROUGH",
		)
	}
	if in.GetHttpsRedirect() {
		r.warn(
			p.dot("httpsRedirect"), true, "has no effect here: requests to this server are in TLS already",
			"httpsRedirect on the server of plain HTTP",
		)
	}
	r.certificatesOf(p, in, out)
	r.clientChecks(p, in, out)
	r.tlsParameters(p, in, out)
	return r.pools.serverTLS.Canonical(out)
}

// certificatesOf reads where certificates come from: Secrets by name, or files.
func (r *reader) certificatesOf(p path, in *networking.ServerTLSSettings, out *model.ServerTLS) {
	var sources []path
	if in.GetCredentialName() != "" {
		sources = append(sources, p.dot("credentialName"))
		out.Credentials = r.credential(p.dot("credentialName"), in.GetCredentialName(), nil)
	}
	if len(in.GetCredentialNames()) > 0 {
		at := p.dot("credentialNames")
		sources = append(sources, at)
		for i, name := range in.GetCredentialNames() {
			out.Credentials = r.credential(at.at(i), name, out.Credentials)
		}
	}
	if in.GetServerCertificate() != "" || in.GetPrivateKey() != "" {
		sources = append(sources, p.dot("serverCertificate"))
		out.Files = r.files(p, in.GetServerCertificate(), in.GetPrivateKey(), nil)
	}
	for i, c := range in.GetTlsCertificates() {
		if i == 0 {
			sources = append(sources, p.dot("tlsCertificates"))
		}
		out.Files = r.files(p.dot("tlsCertificates").at(i), c.GetServerCertificate(), c.GetPrivateKey(), out.Files)
	}
	const want = "one of credentialName, credentialNames, tlsCertificates, or serverCertificate and privateKey"
	switch own := out.Mode == model.ServerSimple || out.Mode == model.ServerMutual ||
		out.Mode == model.ServerOptionalMutual; {
	case own && len(sources) == 0:
		r.fail(p, nil, "has no certificate; the server stays closed", want)
	case own && len(sources) > 1:
		r.fail(sources[1], nil, "is set beside another certificate; the server stays closed", want)
	case !own && len(sources) > 0:
		r.fail(
			sources[0], nil, "has no place in this mode; the server stays closed",
			"mode SIMPLE or MUTUAL, or no certificate",
		)
	}
	const most = 2
	if len(out.Credentials) > most || len(out.Files) > most {
		r.fail(
			sources[0], nil, "has more than two certificates; the server stays closed", "one of RSA and one of ECDSA",
		)
	}
}

// credential reads the name of a Secret with a certificate, and adds it to the list.
func (r *reader) credential(p path, name string, list []string) []string {
	name = strings.TrimPrefix(name, "kubernetes://")
	switch {
	case !isObjectName(name):
		r.fail(
			p, name, "is no name of a Secret; the server stays closed",
			"the name of a Secret in the namespace of the gateway's workload",
		)
	case model.AuthoritiesOf(strings.TrimSuffix(name, model.AuthoritiesOf(""))) == name:
		r.fail(
			p, name, "ends in "+model.AuthoritiesOf("")+", as only authorities do; the server stays closed",
			"a Secret with another name",
		)
	case slices.Contains(list, name):
		r.fail(p, name, "is there twice; the server stays closed", "each Secret once")
	}
	return append(list, name)
}

func (r *reader) files(p path, chain, key string, list []model.CertificateFiles) []model.CertificateFiles {
	if chain == "" || key == "" {
		r.fail(p, nil, "needs serverCertificate and privateKey; the server stays closed", "paths of two files")
	}
	return append(list, model.CertificateFiles{Chain: chain, Key: key})
}

// clientChecks reads how certificates of clients are verified.
func (r *reader) clientChecks(p path, in *networking.ServerTLSSettings, out *model.ServerTLS) {
	out.CAFile, out.RevokedFile = in.GetCaCertificates(), in.GetCaCrl()
	out.SubjectAltNames = in.GetSubjectAltNames()
	out.PublicKeys, out.Hashes = in.GetVerifyCertificateSpki(), in.GetVerifyCertificateHash()
	if name := in.GetCaCertCredentialName(); name != "" {
		out.CACredential = name
		if !isObjectName(name) {
			r.fail(
				p.dot("caCertCredentialName"), name, "is no name of a Secret; the server stays closed",
				"the name of a Secret with ca.crt or cacert",
			)
		}
	}
	for i, c := range in.GetTlsCertificates() {
		if c.GetCaCertificates() != "" {
			r.fail(
				p.dot("tlsCertificates").at(i).dot("caCertificates"), c.GetCaCertificates(),
				"is not supported; the server stays closed", "caCertificates of the server",
			)
		}
	}
	r.checkPins(p, out)
	if out.Mode == model.ServerIstioMutual {
		r.rejectOtherAuthorities(p, out)
		return
	}
	if !out.Mode.ChecksClients() {
		r.rejectClientChecks(p, in, out)
		return
	}
	switch {
	case out.CACredential == "" && out.CAFile == "" && len(out.Credentials) > 0:
		out.CACredential = out.Credentials[0]
	case out.CACredential == "" && out.CAFile == "":
		r.fail(
			p.dot("caCertificates"), nil, "is missing, so no client could be checked; the server stays closed",
			"the path of a file, or caCertCredentialName",
		)
	case out.CACredential != "" && out.CAFile != "":
		r.fail(
			p.dot("caCertificates"), out.CAFile, "is set beside caCertCredentialName; the server stays closed",
			"one of them",
		)
	}
	if out.RevokedFile != "" && out.CAFile == "" {
		r.fail(
			p.dot("caCrl"), out.RevokedFile, "is set without caCertificates; the server stays closed",
			"ca.crl or crl in the Secret",
		)
	}
}

// rejectOtherAuthorities refuses authorities beside those of the mesh: the server would also accept
// clients that they do not know.
func (r *reader) rejectOtherAuthorities(p path, out *model.ServerTLS) {
	const want = "mode MUTUAL"
	const message = "has no place in mode ISTIO_MUTUAL, where the authorities of the mesh check clients; " +
		"the server stays closed"
	switch {
	case out.CACredential != "":
		r.fail(p.dot("caCertCredentialName"), out.CACredential, message, want)
	case out.CAFile != "":
		r.fail(p.dot("caCertificates"), out.CAFile, message, want)
	case out.RevokedFile != "":
		r.fail(p.dot("caCrl"), out.RevokedFile, message, want)
	}
}

// rejectClientChecks refuses demands on client certificates in a mode that requests none: the
// server would accept clients that do not meet them.
func (r *reader) rejectClientChecks(p path, in *networking.ServerTLSSettings, out *model.ServerTLS) {
	const message, want = "has no effect in this mode; the server stays closed", "mode MUTUAL"
	switch {
	case len(out.SubjectAltNames) > 0:
		r.fail(p.dot("subjectAltNames"), nil, message, want)
	case len(out.PublicKeys) > 0:
		r.fail(p.dot("verifyCertificateSpki"), nil, message, want)
	case len(out.Hashes) > 0:
		r.fail(p.dot("verifyCertificateHash"), nil, message, want)
	case out.CACredential != "":
		r.fail(p.dot("caCertCredentialName"), out.CACredential, message, want)
	case out.CAFile != "" && out.Mode == model.ServerSimple, out.RevokedFile != "":
		r.warn(p.dot("caCertificates"), in.GetCaCertificates(), "has no effect in this mode", want)
	}
	out.CAFile, out.RevokedFile, out.AnyClient = "", "", false
}

var (
	certificateHash = regexp.MustCompile(`^([0-9a-fA-F]{64}|([0-9a-fA-F]{2}:){31}[0-9a-fA-F]{2})$`)
	hashSize        = 32
)

// checkPins checks the names and hashes that are demanded of client certificates.
func (r *reader) checkPins(p path, out *model.ServerTLS) {
	for i, name := range out.SubjectAltNames {
		if name == "" || hasControl(name) {
			r.fail(
				p.dot("subjectAltNames").at(i), name, "is no name; the server stays closed",
				"a name in the client's certificate",
			)
		}
	}
	for i, hash := range out.Hashes {
		if !certificateHash.MatchString(hash) {
			r.fail(
				p.dot("verifyCertificateHash").at(i), hash, "is no hash; the server stays closed",
				"a SHA-256 in hexadecimal digits",
			)
		}
	}
	for i, hash := range out.PublicKeys {
		if raw, err := base64.StdEncoding.DecodeString(hash); err != nil || len(raw) != hashSize {
			r.fail(
				p.dot("verifyCertificateSpki").at(i), hash, "is no hash; the server stays closed",
				"a SHA-256 in base64",
			)
		}
	}
}

// ciphers are the ciphers of Envoy's TLS, for versions up to 1.2.
const ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256 ECDHE-RSA-AES128-GCM-SHA256 " +
	"ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-RSA-AES256-GCM-SHA384 " +
	"ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-RSA-CHACHA20-POLY1305 " +
	"ECDHE-ECDSA-AES128-SHA ECDHE-RSA-AES128-SHA ECDHE-ECDSA-AES256-SHA " +
	"ECDHE-RSA-AES256-SHA AES128-GCM-SHA256 AES256-GCM-SHA384 AES128-SHA AES256-SHA DES-CBC3-SHA"

func (r *reader) tlsParameters(p path, in *networking.ServerTLSSettings, out *model.ServerTLS) {
	out.MinVersion = r.tlsVersion(p.dot("minProtocolVersion"), in.GetMinProtocolVersion())
	out.MaxVersion = r.tlsVersion(p.dot("maxProtocolVersion"), in.GetMaxProtocolVersion())
	least, most := out.MinVersion, out.MaxVersion
	if least == model.TLSAuto {
		least = model.TLS12
	}
	if most != model.TLSAuto && most < least {
		r.fail(
			p.dot("maxProtocolVersion"), in.GetMaxProtocolVersion(),
			"is below the least version; the server stays closed",
			"a version from minProtocolVersion on, which is TLSV1_2 unless set",
		)
	}
	out.Ciphers = r.ciphers(p.dot("cipherSuites"), in.GetCipherSuites())
	if len(in.GetCipherSuites()) > 0 && len(out.Ciphers) == 0 {
		r.fail(p.dot("cipherSuites"), nil, "has none that proxies know; the server stays closed", oneOf(ciphers))
	}
}

func (r *reader) tlsVersion(p path, v networking.ServerTLSSettings_TLSProtocol) model.TLSVersion {
	if v < 0 || v > networking.ServerTLSSettings_TLSV1_3 {
		r.fail(p, v, "is no version; the server stays closed", "one of TLS_AUTO, TLSV1_0, TLSV1_1, TLSV1_2, TLSV1_3")
		return model.TLSAuto
	}
	return model.TLSVersion(v) // the same numbers
}
