package convert

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// destinationRule gives nothing if the host or the selector cannot be read.
func (r *reader) destinationRule(in *networkingv1.DestinationRule) []Object {
	spec := &in.Spec
	p := path("spec")
	host, named := r.resolve(p.dot("host"), spec.GetHost(), true)
	selector, usable := r.selector(p.dot("workloadSelector.matchLabels"), spec.GetWorkloadSelector().GetMatchLabels())
	d := &model.DestinationRule{
		Meta:     r.meta,
		Host:     host,
		Policy:   r.trafficPolicy(p.dot("trafficPolicy"), spec.GetTrafficPolicy()),
		Subsets:  r.subsets(p, spec),
		ExportTo: r.exports(p.dot("exportTo"), spec.GetExportTo(), r.mesh.DestinationRuleExport),
		Selector: selector,
	}
	if !selector.IsEmpty() { // a selector does not reach beyond the namespace
		d.ExportTo = model.Exports{Own: true}
	}
	r.reportUnused(p, spec.ProtoReflect())
	if !named || !usable {
		return nil
	}
	return []Object{d}
}

func (r *reader) subsets(p path, rule *networking.DestinationRule) []model.Subset {
	var out []model.Subset
	for i, in := range rule.GetSubsets() {
		at := p.dot("subsets").at(i)
		name := in.GetName()
		if !isSubsetName(name) {
			r.fail(
				at.dot("name"), name, "is no name of a subset; the subset is left out",
				"letters, digits and hyphens, at most 63",
			)
			continue
		}
		if slices.ContainsFunc(out, func(o model.Subset) bool { return o.Name == name }) {
			r.fail(at.dot("name"), name, "is the name of an earlier subset, which counts", "a name of its own")
			continue
		}
		labels, ok := r.selector(at.dot("labels"), in.GetLabels())
		if !ok {
			continue
		}
		if labels.IsEmpty() && in.GetTrafficPolicy() == nil {
			r.warn(at, nil, "has all endpoints of the host and the traffic policy of the host, so it changes nothing",
				"labels or a trafficPolicy")
		}
		if rule.GetTrafficPolicy().GetTunnel() != nil && in.GetTrafficPolicy().GetTunnel() == nil {
			r.warn(p.dot("trafficPolicy.tunnel"), nil, "does not hold for the subset "+name+", whose connections go "+
				"to the proxy as they are", "a tunnel of its own in the subset's trafficPolicy")
		}
		out = append(out, model.Subset{
			Name:   name,
			Labels: labels,
			Policy: r.trafficPolicy(at.dot("trafficPolicy"), in.GetTrafficPolicy()),
		})
	}
	return out
}

// isSubsetName is Istio's rule: a label of a host name, in any case. The name becomes a part of
// cluster names, between "|".
func isSubsetName(s string) bool { return labelMistake(s) == "" }

func (r *reader) trafficPolicy(p path, in *networking.TrafficPolicy) *model.TrafficPolicy {
	if in == nil {
		return nil
	}
	return r.pools.policies.Canonical(&model.TrafficPolicy{
		LB:      r.loadBalancer(p.dot("loadBalancer"), in.GetLoadBalancer()),
		Pool:    r.connectionPool(p.dot("connectionPool"), in.GetConnectionPool()),
		Outlier: r.outlierDetection(p.dot("outlierDetection"), in.GetOutlierDetection()),
		TLS:     r.clientTLS(p.dot("tls"), in.GetTls()),

		Announces: r.announces(p, in),
		Tunnel:    r.tunnel(p, in),
		Budget:    r.retryBudget(p.dot("retryBudget"), in.GetRetryBudget()),
		Ports:     r.portPolicies(p.dot("portLevelSettings"), in.GetPortLevelSettings()),
	})
}

func (r *reader) portPolicies(p path, list []*networking.TrafficPolicy_PortTrafficPolicy) []model.PortPolicy {
	var out []model.PortPolicy
	for i, in := range list {
		at := p.at(i)
		number, ok := r.port(at.dot("port.number"), int64(in.GetPort().GetNumber()))
		if !ok {
			continue
		}
		if slices.ContainsFunc(out, func(o model.PortPolicy) bool { return o.Port == number }) {
			r.fail(at.dot("port.number"), number, "has settings already, which count", "each port once")
			continue
		}
		out = append(out, model.PortPolicy{Port: number, Policy: r.pools.policies.Canonical(&model.TrafficPolicy{
			LB:      r.loadBalancer(at.dot("loadBalancer"), in.GetLoadBalancer()),
			Pool:    r.connectionPool(at.dot("connectionPool"), in.GetConnectionPool()),
			Outlier: r.outlierDetection(at.dot("outlierDetection"), in.GetOutlierDetection()),
			TLS:     r.clientTLS(at.dot("tls"), in.GetTls()),
		})})
	}
	slices.SortFunc(out, func(a, b model.PortPolicy) int { return cmp.Compare(a.Port, b.Port) })
	return out
}

// clientTLS reads how connections are secured. A mistake closes the destination: it never leads to
// plaintext, or to a check that is left out.
func (r *reader) clientTLS(p path, in *networking.ClientTLSSettings) *model.ClientTLS {
	if in == nil {
		return nil
	}
	start := r.mark()
	out := &model.ClientTLS{
		SNI:                r.sni(p.dot("sni"), in.GetSni()),
		CAFile:             in.GetCaCertificates(),
		SubjectAltNames:    slices.Clone(in.GetSubjectAltNames()),
		InsecureSkipVerify: in.GetInsecureSkipVerify().GetValue(),
	}
	switch in.GetMode() {
	case networking.ClientTLSSettings_DISABLE:
		return &model.ClientTLS{Mode: model.Disable}
	case networking.ClientTLSSettings_SIMPLE:
		out.Mode = model.Simple
	case networking.ClientTLSSettings_MUTUAL:
		out.Mode, out.CertFile, out.KeyFile = model.Mutual, in.GetClientCertificate(), in.GetPrivateKey()
		if in.GetCredentialName() == "" && (out.CertFile == "" || out.KeyFile == "") {
			r.fail(
				p, nil, "needs clientCertificate and privateKey for mode MUTUAL; the destination is closed",
				"paths of two files",
			)
		}
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		out.Mode = model.IstioMutual
		r.rejectOtherCertificates(p, in)
	default:
		r.fail(
			p.dot("mode"), in.GetMode(), "is no mode; the destination is closed",
			"DISABLE, SIMPLE, MUTUAL or ISTIO_MUTUAL",
		)
	}
	r.clientCredential(p, in, out)
	r.revokedServers(p, in, out)
	if r.failure(start, p) != "" {
		return &model.ClientTLS{Mode: model.Unusable}
	}
	return out
}

// rejectOtherCertificates refuses other certificates beside those of the mesh, which would be
// ignored.
func (r *reader) rejectOtherCertificates(p path, in *networking.ClientTLSSettings) {
	const want = "mode MUTUAL"
	const message = "has no place in mode ISTIO_MUTUAL, where certificates are those of the mesh; " +
		"the destination is closed"
	for _, f := range []struct{ name, value string }{
		{"clientCertificate", in.GetClientCertificate()}, {"privateKey", in.GetPrivateKey()},
		{"caCertificates", in.GetCaCertificates()}, {"credentialName", in.GetCredentialName()},
		{"caCrl", in.GetCaCrl()},
	} {
		if f.value != "" {
			r.fail(p.dot(f.name), f.value, message, want)
		}
	}
	if in.GetInsecureSkipVerify().GetValue() {
		r.fail(p.dot("insecureSkipVerify"), true, message, want)
	}
}

// clientCredential reads the name of a Secret that replaces files.
func (r *reader) clientCredential(p path, in *networking.ClientTLSSettings, out *model.ClientTLS) {
	name := in.GetCredentialName()
	if name == "" {
		return
	}
	at := p.dot("credentialName")
	out.Credential = strings.TrimPrefix(name, "kubernetes://")
	switch {
	case !isObjectName(out.Credential):
		r.fail(
			at, name, "is no name of a Secret; the destination is closed",
			"the name of a Secret in the namespace of the workload that calls",
		)
	case model.AuthoritiesOf(strings.TrimSuffix(out.Credential, model.AuthoritiesOf(""))) == out.Credential:
		r.fail(
			at, name, "ends in "+model.AuthoritiesOf("")+", as only authorities do; the destination is closed",
			"a Secret with another name",
		)
	case out.CAFile != "" || out.CertFile != "" || out.KeyFile != "":
		r.fail(at, name, "is set beside paths of files; the destination is closed", "one of them")
	}
}

// revokedServers reads the file with certificates that are refused. Beside a Secret it would be
// another list than the Secret's, and beside insecureSkipVerify nothing is checked by it.
func (r *reader) revokedServers(p path, in *networking.ClientTLSSettings, out *model.ClientTLS) {
	at, file := p.dot("caCrl"), in.GetCaCrl()
	switch {
	case file == "" || out.Mode == model.IstioMutual: // which has no files at all
	case out.Credential != "":
		r.fail(at, file, "is set beside credentialName; the destination is closed", "ca.crl or crl in the Secret")
	case out.InsecureSkipVerify:
		r.fail(at, file, "is set beside insecureSkipVerify, by which no certificate is checked; the destination is "+
			"closed", "one of them")
	default:
		out.RevokedFile = file
	}
}

func (r *reader) sni(p path, name string) string {
	if name == "" {
		return ""
	}
	if wrong := hostMistake(name, false); wrong != "" {
		r.fail(p, name, wrong+"; the destination is closed", wantHost)
	}
	return name
}
