package convert

import (
	"strings"

	networkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// proxyConfigObject converts a ProxyConfig. A field with a mistake is left out: proxies start
// without it.
func (r *reader) proxyConfigObject(in *networkingv1beta1.ProxyConfig) []Object {
	spec := &in.Spec
	p := path("spec")
	out := &model.ProxyConfig{Meta: r.meta}
	selector, usable := r.selector(p.dot("selector.matchLabels"), spec.GetSelector().GetMatchLabels())
	out.Selector = selector
	if of := spec.GetConcurrency(); of != nil {
		if n := of.GetValue(); n >= 0 {
			out.Concurrency = &n
		} else {
			r.fail(p.dot("concurrency"), n, "is negative"+leftOutField, "0 for a worker on each processor, or more")
		}
	}
	at := p.dot("environmentVariables")
	for _, name := range sortedKeys(spec.GetEnvironmentVariables()) {
		if !isVariable(name) {
			r.fail(at.key(name), nil, "is no name of a variable"+leftOutField, `letters, digits, and "_", "-" or "."`)
			continue
		}
		if isAgents(name) {
			r.fail(at.key(name), nil, "says whom the agents of other people's Pods trust or who they are"+leftOutField,
				"it in proxyMetadata, of a Pod's annotation proxy.istio.io/config or of the mesh's defaultConfig")
			continue
		}
		out.Environment = append(out.Environment, model.Variable{Name: name, Value: spec.EnvironmentVariables[name]})
	}
	if kind := spec.GetImage().GetImageType(); isImageType(kind) {
		out.ImageType = kind
	} else {
		r.fail(p.dot("image.imageType"), kind, "is no type of an image"+leftOutField, "default, distroless or debug")
	}
	r.reportUnused(p, spec.ProtoReflect())
	if !usable {
		return nil
	}
	return []Object{out}
}

// leftOutField is what becomes of a field with a mistake.
const leftOutField = "; it has no effect"

// isVariable reports whether a container may have a variable of this name.
func isVariable(name string) bool {
	for i, c := range []byte(name) {
		digit := '0' <= c && c <= '9'
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && c != '_' && c != '-' && c != '.' && (!digit || i == 0) {
			return false
		}
	}
	return name != "" && name != "." && name != ".."
}

// isAgents reports whether a variable says to whom an agent shows its token, whom it trusts, or who
// it is. Who may write a ProxyConfig would get the tokens of all Pods that it selects. What Istio's
// documentation sets for behavior (ISTIO_META_DNS_CAPTURE, BOOTSTRAP_XDS_AGENT,
// EXIT_ON_ZERO_ACTIVE_CONNECTIONS and others) is not among them.
func isAgents(name string) bool {
	switch name {
	case "CA_ADDR", "CA_PROVIDER", "CA_ROOT_CA", "XDS_AUTH", "XDS_AUTH_PROVIDER", "XDS_ROOT_CA", "ISTIOD_SAN",
		"PILOT_CERT_PROVIDER", "PROV_CERT", "FILE_MOUNTED_CERTS", "CREDENTIAL_FETCHER_TYPE",
		"CREDENTIAL_IDENTITY_PROVIDER", "PLUGINS", "TRUST_DOMAIN", "WORKLOAD_IDENTITY_SOCKET_FILE",
		"PROXY_CONFIG", "POD_NAME", "POD_NAMESPACE", "SERVICE_ACCOUNT", "INSTANCE_IP", "INSTANCE_IPS", "HOST_IP",
		"SSL_CERT_FILE", "SSL_CERT_DIR":
		return true
	}
	for _, prefix := range []string{"CA_HEADER_", "XDS_HEADER_", "LD_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// isImageType reports whether a text can end the tag of an image, or is empty.
func isImageType(text string) bool {
	for _, c := range []byte(text) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
