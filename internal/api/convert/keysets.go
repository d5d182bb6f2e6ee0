package convert

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// KeySetsKey names the ConfigMap with the fetched keys.
func (c *Converter) KeySetsKey() source.Key {
	return source.Key{
		Kind: kinds.ConfigMap, Namespace: c.defaults.RootNamespace, Name: kinds.KeySetsConfigMap(c.configMap),
	}
}

// keySets reads the sets of keys that the control plane has fetched. One that cannot be read is
// left out, so the tokens that it is for are refused.
func (r *reader) keySets(in *corev1.ConfigMap) []Object {
	entries, bad := jwks.Decode(in.Data)
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		r.fail(path("data").dot(name), nil, bad[name].Error(), "nothing: the control plane writes this ConfigMap")
	}
	var out []Object
	for _, e := range entries {
		out = append(out, &model.KeySet{Meta: r.meta, URI: e.URI, Keys: e.Keys, Error: e.Error})
	}
	return out
}
