package convert

import (
	"crypto/x509"
	"slices"

	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// caCertificates reads the roots of signers. What cannot be trusted as it is meant is left out: a
// root for another trust domain would be one for this mesh's identities too.
func (r *reader) caCertificates(p path, in []*mesh.MeshConfig_CertificateData, out *model.MeshConfig) {
	for i, c := range in {
		at := p.at(i)
		if url := c.GetSpiffeBundleUrl(); url != "" {
			r.fail(at.dot("spiffeBundleUrl"), url, "is not supported; its roots are not trusted", "pem")
			continue
		}
		foreign := slices.IndexFunc(c.GetTrustDomains(), func(name string) bool {
			return name != out.TrustDomain && !slices.Contains(out.TrustDomainAliases, name)
		})
		switch {
		case foreign >= 0:
			r.fail(at.dot("trustDomains").at(foreign), c.GetTrustDomains()[foreign],
				"is not of this mesh; these roots are not trusted", "trustDomain or one of trustDomainAliases")
		case !x509.NewCertPool().AppendCertsFromPEM([]byte(c.GetPem())):
			r.fail(at.dot("pem"), nil, "has no certificate", "certificates in PEM")
		default:
			if !r.converter.external {
				r.warn(at, nil, "has no effect, as certificates are signed by Lateen itself", "EXTERNAL_CA")
			}
			out.CACertificates = append(out.CACertificates, model.CACertificate{
				PEM: c.GetPem(), Signers: c.GetCertSigners(),
			})
		}
	}
}
