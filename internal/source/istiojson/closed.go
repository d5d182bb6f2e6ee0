package istiojson

import (
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	istiosecurity "istio.io/api/security/v1beta1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// ClosedSpec returns the spec that replaces one that cannot be read; nil for kinds that protect
// nothing. It refuses calls to the workloads that the spec selects, or to all in the namespace if
// what selects them cannot be read either.
func ClosedSpec(k kinds.Kind, raw json.RawMessage) proto.Message {
	fields, selector := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	_ = json.Unmarshal(raw, &fields) // without a selector it is for all
	for _, name := range Selecting() {
		if value := fields[name]; value != nil {
			selector[name] = value
		}
	}
	switch k {
	case kinds.AuthorizationPolicy: // one that allows nothing
		return withSelector(selector, &istiosecurity.AuthorizationPolicy{})
	case kinds.PeerAuthentication:
		spec := withSelector(selector, &istiosecurity.PeerAuthentication{})
		spec.Mtls = &istiosecurity.PeerAuthentication_MutualTLS{
			Mode: istiosecurity.PeerAuthentication_MutualTLS_STRICT,
		}
		return spec
	case kinds.RequestAuthentication: // a rule without an issuer refuses all requests
		spec := withSelector(selector, &istiosecurity.RequestAuthentication{})
		spec.JwtRules = []*istiosecurity.JWTRule{{}}
		return spec
	}
	return nil
}

// Selecting returns the fields of a spec that say for which workloads it is.
func Selecting() []string { return []string{"selector", "targetRef", "targetRefs"} }

// withSelector reads what selects workloads into an empty spec. The spec stays empty if that cannot
// be read, or if a target has a field that is unknown, since its name may be meant by that.
func withSelector[T proto.Message](selector map[string]json.RawMessage, spec T) T {
	text, err := json.Marshal(selector)
	attached := selector["targetRef"] != nil || selector["targetRefs"] != nil
	if err != nil || (protojson.UnmarshalOptions{DiscardUnknown: !attached}).Unmarshal(text, spec) != nil {
		proto.Reset(spec)
	}
	return spec
}
