package convert

import (
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Istio's options of a listener that terminates TLS.
const (
	// terminateModeOption says whether the listener asks clients for certificates.
	terminateModeOption = "gateway.istio.io/tls-terminate-mode"
	// cipherSuitesOption is a list of ciphers, separated by commas, as Envoy names them.
	cipherSuitesOption = "gateway.istio.io/tls-cipher-suites"
)

// optionTargets are what options of TLS change: a listener and its TLS, which is not shared yet.
type optionTargets struct {
	listener *model.Listener
	tls      *model.ServerTLS
}

// tlsOptions reads options of TLS. One that asks for certificates of clients closes the listener,
// and so do ciphers of which proxies know none: open, it would take more than it is meant to.
func (r *reader) tlsOptions(p path, in map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue, of optionTargets) {
	for _, key := range sortedKeys(in) {
		at, value := p.key(string(key)), string(in[key])
		switch {
		case key == cipherSuitesOption:
			r.cipherSuites(at, value, of)
		case key != terminateModeOption:
			r.warn(at, nil, notYet, "")
		case value != "" && value != "SIMPLE":
			r.unsupportedListener(at, value, "is no mode that is supported", of.listener)
		}
	}
}

// cipherSuites reads the ciphers of a listener; an empty list means those of the mesh.
func (r *reader) cipherSuites(p path, value string, of optionTargets) {
	var names []string
	for name := range strings.SplitSeq(value, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	of.tls.Ciphers = r.ciphers(p, names)
	if len(of.tls.Ciphers) == 0 && len(names) > 0 {
		const message = "has no cipher that proxies know"
		r.fail(p, value, message+"; the listener stays closed", oneOf(ciphers))
		of.listener.Accepted = model.Condition{
			Reason: string(gatewayv1.ListenerReasonUnsupportedValue), Message: string(p) + ": " + message,
		}
	}
}
