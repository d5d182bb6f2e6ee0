package proxystats

import (
	"cmp"
	"slices"
	"strings"
)

// Variables of Envoy's environment by which spans say whose they are. Listeners name the variables,
// not the values, so that workloads share them.
const (
	canonicalService  = "CANONICAL_SERVICE"
	canonicalRevision = "CANONICAL_REVISION"
	podNamespace      = "POD_NAMESPACE"
	clusterID         = "ISTIO_META_CLUSTER_ID"
	datadogService    = "DD_SERVICE"
	otelResource      = "OTEL_RESOURCE_ATTRIBUTES" // "key=value,key=value"
	serviceName       = "service.name"
)

// SpanVariables returns the variables, as "NAME=value", that lookup does not have; it returns ""
// for one that is not set. The name of the service is Istio's, "reviews.default". Attributes that
// are set for OpenTelemetry stay beside it.
func (w Workload) SpanVariables(lookup func(name string) string) []string {
	var out []string
	service := cmp.Or(w.CanonicalName, w.App, w.Name) + "." + w.Namespace
	for _, v := range [][2]string{
		{canonicalService, w.CanonicalName}, {canonicalRevision, w.CanonicalRevision}, {podNamespace, w.Namespace},
		{clusterID, w.Cluster}, {datadogService, service},
	} {
		if lookup(v[0]) == "" && v[1] != "" {
			out = append(out, v[0]+"="+v[1])
		}
	}
	attributes := lookup(otelResource)
	named := func(pair string) bool {
		key, _, _ := strings.Cut(pair, "=")
		return strings.TrimSpace(key) == serviceName
	}
	all := strings.Split(attributes, ",")
	if slices.ContainsFunc(all, named) {
		return out
	}
	own := otelResource + "=" + serviceName + "=" + clean(service)
	if attributes != "" {
		own += "," + attributes
	}
	return append(out, own)
}
