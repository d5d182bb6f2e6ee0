package convert

import (
	"google.golang.org/protobuf/encoding/protojson"
	mesh "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/istiojson"
)

// Stated reads what the annotation proxy.istio.io/config of a Pod says of its proxy: of tracing,
// headers and connections. Who runs the proxy reads the rest of it. It is canonical, and nil if
// nothing is said. A field with a mistake is left out.
func (c *Converter) Stated(text string) (*model.Stated, []source.Problem) {
	const at = path("metadata.annotations[proxy.istio.io/config]")
	r := &reader{converter: c, mesh: c.defaults, pools: c.pools}
	in := &mesh.ProxyConfig{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil && string(raw) != "null" {
		err = istiojson.Unmarshal(raw, in, protojson.UnmarshalOptions{DiscardUnknown: true})
	}
	if err != nil {
		r.fail(at, nil, "cannot be read: "+err.Error()+leftOutField, "the fields of Istio's ProxyConfig in YAML")
		return nil, r.problems
	}
	out := &model.Stated{}
	if headers := in.GetProxyHeaders(); headers != nil {
		of := r.proxyHeaders(at.dot("proxyHeaders"), headers)
		out.Headers = &of
	}
	out.Connections = r.connectionSettings(at.dot("connectionSettings"), in.GetConnectionSettings())
	p, tracing := at.dot("tracing"), in.GetTracing()
	out.Tracing.MaxPathLength = tracing.GetMaxPathTagLength()
	out.Tracing.IstioTags = choice(tracing.GetEnableIstioTags())
	out.Tracing.Tags = r.configTags(p.dot("customTags"), tracing.GetCustomTags())
	if percent := r.sampling(p.dot("sampling"), tracing.GetSampling()); percent != nil {
		out.Tracing.Sampling = *percent
	}
	r.reportUnused(p, tracing.ProtoReflect())
	if tracing.GetTracer() != nil {
		r.warn(p, nil, "names where spans go, which is not supported for one Pod yet and has no effect", "a Telemetry")
	}
	if out.IsZero() {
		return nil, r.problems
	}
	return c.pools.stated.Canonical(out), r.problems
}
