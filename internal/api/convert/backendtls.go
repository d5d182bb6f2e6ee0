package convert

import (
	"fmt"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// certificateBundle reads the authorities that a ConfigMap holds, and ignores other ConfigMaps. Who
// names it reports what is wrong with it: most ConfigMaps with such a key are for others.
func (r *reader) certificateBundle(in *corev1.ConfigMap) []Object {
	text, has := in.Data[kinds.AuthoritiesKey]
	if !has {
		return r.ignore()
	}
	out := &model.CertificateBundle{Meta: r.meta}
	start, at := r.mark(), path("data").key(kinds.AuthoritiesKey)
	r.certificates(pemValue{text, at}, "")
	if out.Broken = r.failure(start, at); out.Broken == "" {
		out.Certificates = unique.Make(text).Value() // clusters have the same one in each namespace
	}
	r.problems = r.problems[:start]
	return []Object{out}
}

// backendTLSPolicy reads how Services are called in TLS. A mistake closes the Services that it is
// for: they are never called in plaintext, nor by a server that nobody has verified.
func (r *reader) backendTLSPolicy(in *gatewayv1.BackendTLSPolicy) []Object {
	p := path("spec")
	out := &model.BackendTLSPolicy{
		Meta:         r.meta,
		TLS:          model.ClientTLS{Mode: model.Simple},
		Accepted:     accepted(string(gatewayv1.PolicyReasonAccepted)),
		ResolvedRefs: accepted(string(gatewayv1.BackendTLSPolicyReasonResolvedRefs)),
	}
	for i, ref := range in.Spec.TargetRefs {
		if target, ok := r.backendTarget(p.dot("targetRefs").at(i), ref); ok {
			out.Targets = append(out.Targets, target)
		}
	}
	if len(out.Targets) == 0 {
		r.fail(p.dot("targetRefs"), nil, "names no Service, so that the policy has no effect", "a Service")
		out.Accepted = invalidPolicy("no target is a Service")
	}
	at := p.dot("validation")
	r.serverIdentity(at, &in.Spec.Validation, out)
	r.serverAuthorities(at, &in.Spec.Validation, out)
	for _, key := range sortedKeys(in.Spec.Options) {
		r.warn(p.dot("options").key(string(key)), nil, notYet, "")
	}
	return []Object{out}
}

func invalidPolicy(message string) model.Condition {
	return model.Condition{Reason: string(gatewayv1.PolicyReasonInvalid), Message: message}
}

// closes makes the targets of a policy unreachable because of what was reported last. The first
// reason stands in the status.
func (r *reader) closes(out *model.BackendTLSPolicy) {
	last := r.problems[len(r.problems)-1]
	out.TLS = model.ClientTLS{Mode: model.Unusable}
	if out.Accepted.Status {
		out.Accepted = invalidPolicy(last.Path + ": " + last.Message)
	}
}

func (r *reader) backendTarget(
	p path, ref gatewayv1.LocalPolicyTargetReferenceWithSectionName,
) (model.BackendTarget, bool) {
	switch {
	case ref.Group != "" || ref.Kind != "Service":
		r.fail(p.dot("kind"), ref.Kind, "is no kind that this policy can be for", "Service, of the group \"\"")
		return model.BackendTarget{}, false
	case !isName(string(ref.Name)):
		r.fail(p.dot("name"), ref.Name, "is no name of a Service", wantLabel)
		return model.BackendTarget{}, false
	}
	out := model.BackendTarget{
		Service: string(ref.Name), Host: model.Resolve(string(ref.Name), r.meta.Namespace, r.mesh.Domain),
	}
	if ref.SectionName != nil {
		out.Section = string(*ref.SectionName)
	}
	return out, true
}

// serverIdentity reads which server is asked for, and what its certificate must say.
func (r *reader) serverIdentity(
	p path, in *gatewayv1.BackendTLSPolicyValidation, out *model.BackendTLSPolicy,
) {
	const closed = "; the Services of the policy are closed"
	host, ok := r.literal(p.dot("hostname"), string(in.Hostname), false)
	if !ok {
		r.closes(out)
		return
	}
	out.TLS.SNI, out.TLS.SubjectAltNames = string(host), []string{string(host)}
	if len(in.SubjectAltNames) > 0 {
		out.TLS.SubjectAltNames = nil
	}
	for i, san := range in.SubjectAltNames {
		at, name := p.dot("subjectAltNames").at(i), ""
		switch san.Type {
		case gatewayv1.HostnameSubjectAltNameType:
			if host, ok := r.literal(at.dot("hostname"), string(san.Hostname), true); ok {
				name = string(host)
			}
		case gatewayv1.URISubjectAltNameType:
			if name = string(san.URI); !strings.Contains(name, ":") || hasControl(name) {
				r.fail(at.dot("uri"), san.URI, "is no URI"+closed, "as spiffe://cluster.local/ns/default/sa/web")
				name = ""
			}
		default:
			r.fail(at.dot("type"), san.Type, "is no type of name"+closed, "Hostname or URI")
		}
		if name == "" {
			r.closes(out)
			return
		}
		out.TLS.SubjectAltNames = append(out.TLS.SubjectAltNames, name)
	}
}

// serverAuthorities reads who may have signed the server's certificate.
func (r *reader) serverAuthorities(
	p path, in *gatewayv1.BackendTLSPolicyValidation, out *model.BackendTLSPolicy,
) {
	system := in.WellKnownCACertificates != nil && *in.WellKnownCACertificates != ""
	at, refs := p.dot("caCertificateRefs"), in.CACertificateRefs
	const want = "caCertificateRefs, or wellKnownCACertificates: System"
	switch {
	case system && *in.WellKnownCACertificates != gatewayv1.WellKnownCACertificatesSystem:
		r.fail(p.dot("wellKnownCACertificates"), *in.WellKnownCACertificates,
			"is not known; the Services of the policy are closed", "System")
		r.closes(out)
	case system && len(refs) > 0:
		r.fail(at, nil, "is set beside wellKnownCACertificates; the Services of the policy are closed", want)
		r.closes(out)
	case !system && len(refs) == 0:
		r.fail(at, nil, "is empty; the Services of the policy are closed", want)
		r.closes(out)
	}
	for i, ref := range refs {
		switch one := at.at(i); {
		case ref.Group != "" || ref.Kind != "ConfigMap":
			out.ResolvedRefs = r.badAuthorities(
				one.dot("kind"), ref.Kind, string(gatewayv1.BackendTLSPolicyReasonInvalidKind),
			)
		case !isObjectName(string(ref.Name)):
			out.ResolvedRefs = r.badAuthorities(
				one.dot("name"), ref.Name, string(gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef),
			)
		case !slices.Contains(out.Bundles, string(ref.Name)):
			out.Bundles = append(out.Bundles, string(ref.Name))
		}
	}
	if len(refs) > 0 && len(out.Bundles) == 0 {
		out.TLS = model.ClientTLS{Mode: model.Unusable}
		if !out.Accepted.Status {
			return
		}
		out.Accepted = model.Condition{
			Reason:  string(gatewayv1.BackendTLSPolicyReasonNoValidCACertificate),
			Message: out.ResolvedRefs.Message,
		}
	}
}

// badAuthorities reports a reference that names no ConfigMap, and returns the condition of what
// refers to it.
func (r *reader) badAuthorities(p path, value any, reason string) model.Condition {
	const message = "is no ConfigMap; what it signs is not trusted"
	r.fail(p, value, message, "a ConfigMap with the key "+kinds.AuthoritiesKey)
	return model.Condition{Reason: reason, Message: fmt.Sprintf("%s: %q %s", p, value, message)}
}
