package convert

import (
	"slices"
	"strings"

	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// meshClusters reads what the mesh says of all clusters. A wrong value is left out alone, as that
// of a DestinationRule.
func (r *reader) meshClusters(p path, in *mesh.MeshConfig) *model.ClusterDefaults {
	policy, at := in.GetDefaultTrafficPolicy(), p.dot("defaultTrafficPolicy")
	out := model.ClusterDefaults{
		Pool:      r.connectionPool(at.dot("connectionPool"), policy.GetConnectionPool()),
		Outlier:   r.outlierDetection(at.dot("outlierDetection"), policy.GetOutlierDetection()),
		Keepalive: r.keepalive(p.dot("tcpKeepalive"), in.GetTcpKeepalive()),
	}
	if out == (model.ClusterDefaults{}) {
		return nil
	}
	return r.pools.clusters.Canonical(&out)
}

// longestStatPattern is a bound, in bytes: each cluster has a name made of the pattern.
const longestStatPattern = 256

// statPattern reads by which name clusters stand in statistics. One with a mistake leaves their own
// names. without are placeholders that have no value there.
func (r *reader) statPattern(p path, text string, without ...string) model.StatPattern {
	const want = "text with some of " + model.StatPlaceholders
	switch {
	case len(text) > longestStatPattern:
		r.fail(p, text, "is too long; clusters keep their own names", "at most 256 bytes")
		return ""
	case hasControl(text):
		r.fail(p, text, "has control characters; clusters keep their own names", want)
		return ""
	}
	for rest := text; ; {
		_, after, opens := strings.Cut(rest, "%")
		name, end, closes := strings.Cut(after, "%")
		if !opens || !closes {
			return model.StatPattern(text)
		}
		rest = end
		switch name = "%" + name + "%"; {
		case strings.Trim(name, "%_") == "": // no name: signs that stand alone
			rest = "%" + end
		case !hasWord(model.StatPlaceholders, name):
			r.warn(p, name, "is no placeholder, and stays as it is", want)
			rest = "%" + end // the sign may begin another one
		case slices.Contains(without, name):
			r.warn(p, name, "has no value here", want)
		}
	}
}
