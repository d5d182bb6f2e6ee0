// Package proxystats owns the form in which Envoy keeps Istio's standard metrics, and in which
// proxies name their workloads to each other.
//
//	control plane ──► access loggers ──► Envoy's statistics ──► agent ──► istio_requests_total{…}
//
// A statistic of Envoy has one tag, Tag, whose value holds all that differs from request to request
// (Request, Connection). What is the same for all, such as the labels of the proxy's own workload,
// the agent adds when it is scraped: each tag that Envoy formats costs time for every request.
//
// The control plane and the agent share it. It imports nothing of the product.
package proxystats
