package convert

import (
	"slices"
	"strings"

	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// curves are the groups for exchanging keys that Envoy's TLS library knows by these names
// (TlsParameters.ecdh_curves). Envoy refuses a listener with another.
const curves = "X25519MLKEM768 X25519 P-256 P-384 P-521"

// tlsParams reads limits on TLS. A value that proxies do not know is left out. Where none is left
// the limit is narrower than any that could be meant: TLS 1.3, which asks no list of ciphers, and
// one curve. What stands above the configuration of the mesh stays.
func (r *reader) tlsParams(p path, in *mesh.MeshConfig_TLSConfig, above *model.TLSParams) *model.TLSParams {
	if in == nil {
		return r.pools.tlsParams.Canonical(above)
	}
	out := &model.TLSParams{
		Ciphers: r.ciphers(p.dot("cipherSuites"), in.GetCipherSuites()),
		Curves:  r.known(p.dot("ecdhCurves"), in.GetEcdhCurves(), words{"curve", curves}),
	}
	if above != nil {
		out.Compliance = above.Compliance
	}
	switch v := in.GetMinProtocolVersion(); v {
	case mesh.MeshConfig_TLSConfig_TLS_AUTO:
	case mesh.MeshConfig_TLSConfig_TLSV1_2:
		out.MinVersion = model.TLS12
	case mesh.MeshConfig_TLSConfig_TLSV1_3:
		out.MinVersion = model.TLS13
	default:
		r.fail(p.dot("minProtocolVersion"), v, "is no version; TLS 1.3 is demanded",
			"one of TLS_AUTO, TLSV1_2, TLSV1_3")
		out.MinVersion = model.TLS13
	}
	if len(in.GetCipherSuites()) > 0 && len(out.Ciphers) == 0 {
		r.fail(p.dot("cipherSuites"), nil, "has none that proxies know; TLS 1.3 is demanded", oneOf(ciphers))
		out.MinVersion = model.TLS13
	}
	if len(in.GetEcdhCurves()) > 0 && len(out.Curves) == 0 {
		r.fail(p.dot("ecdhCurves"), nil, "has none that proxies know; P-384 alone is taken", oneOf(curves))
		out.Curves = []string{"P-384"}
	}
	return r.pools.tlsParams.Canonical(out)
}

func oneOf(words string) string { return "one of " + strings.ReplaceAll(words, " ", ", ") }

// words are the names that proxies know of something.
type words struct{ of, all string }

func (r *reader) ciphers(p path, names []string) []string {
	return r.known(p, names, words{"cipher", ciphers})
}

// known returns the names of a list that proxies know, each once. Others are reported.
func (r *reader) known(p path, names []string, w words) []string {
	var found []string
	for i, name := range names {
		switch at := p.at(i); {
		case !hasWord(w.all, name):
			r.warn(at, name, "is no "+w.of+" that proxies know; it is left out", oneOf(w.all))
		case slices.Contains(found, name):
			r.warn(at, name, "is there twice", "")
		default:
			found = append(found, name)
		}
	}
	return found
}
