package convert

import (
	"encoding/json"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// gatewayAnnotation returns an annotation of a Gateway's infrastructure as its objects get it; ok
// is false if it is left out.
func (r *reader) gatewayAnnotation(p path, key, value string) (text string, ok bool) {
	switch {
	case key == model.ProxyConfigAnnotation:
		return r.gatewayProxyConfig(p, value)
	case hasControl(value):
		r.fail(p, nil, "has control characters and is left out", "one line")
		return "", false
	case isForPods(key) && !model.ConfiguresGatewayProxy(key):
		r.warn(p, value, "does not reach the Pods of the gateway: it would steer what is injected",
			"parameters, for what they may set, or an annotation that configures the proxy")
	}
	return value, true
}

// isForPods reports whether an annotation is one of Istio's for Pods. Those of networking.istio.io
// are for Services.
func isForPods(annotation string) bool {
	domain, _, _ := strings.Cut(annotation, "/")
	return domain == "istio.io" || strings.HasSuffix(domain, ".istio.io") && domain != "networking.istio.io"
}

// gatewayProxyConfig returns the ProxyConfig of a Gateway in one line. One with a field that is not
// for Gateways is left out whole.
func (r *reader) gatewayProxyConfig(p path, value string) (text string, ok bool) {
	raw, err := untrusted.Annotation().YAMLToJSON(value)
	var config map[string]any
	if err == nil {
		err = untrusted.Annotation().JSON(raw, &config)
	}
	if err != nil {
		r.fail(p, value, "cannot be read and is left out: "+err.Error(), "the fields of Istio's ProxyConfig in YAML")
		return "", false
	}
	ok = true
	for _, field := range sortedKeys(config) {
		if !model.IsConfigurableOfGateway(field) {
			r.fail(p.dot(field), nil, "may not be set by a Gateway; the annotation is left out",
				"a field that configures no more than how the proxy serves, as concurrency or gatewayTopology")
			ok = false
		}
	}
	variables, _ := config["proxyMetadata"].(map[string]any)
	for _, name := range sortedKeys(variables) {
		if !model.IsVariableOfGateway(name) {
			r.fail(p.dot("proxyMetadata").key(name), nil, "may not be set by a Gateway; the annotation is left out",
				"a variable that configures no more than how the proxy serves, as ISTIO_META_HTTP10")
			ok = false
		}
	}
	line, err := json.Marshal(config)
	return string(line), ok && err == nil
}
