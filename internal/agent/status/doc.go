// Package status owns what the agent itself answers, on ProxyConfig.statusPort: whether the proxy
// is ready, metrics of the application, Envoy and the agent in one, probes that the kubelet means
// for the application, and requests of this machine to drain or to end.
//
//	kubelet ── 15021: Envoy ── /healthz/ready ─┐
//	kubelet ── /app-health/…, /app-lifecycle/… ├─ 15020: Server ──► application, Envoy
//	Prometheus ── /stats/prometheus ───────────┘
//
// Whatever is asked of others is bounded in time and size, and how many ask at a time is too.
//
// It may import agent/metrics, agent/settings and agent/meshstats.
package status
