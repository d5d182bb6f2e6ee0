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
// the selector cannot be read either.
func ClosedSpec(k kinds.Kind, raw json.RawMessage) proto.Message {
	var fields struct {
		Selector json.RawMessage `json:"selector"`
	}
	_ = json.Unmarshal(raw, &fields) // without a selector it is for all
	selector := []byte(`{"selector":` + string(fields.Selector) + `}`)
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

// withSelector reads a selector into an empty spec. The spec stays empty if the selector cannot be
// read.
func withSelector[T proto.Message](selector []byte, spec T) T {
	if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(selector, spec) != nil {
		proto.Reset(spec)
	}
	return spec
}
