// Package observe owns the metric definitions, with fixed names, labels and buckets, and the
// logger. Every other package may import it; it imports none of ours.
//
//	any package ──► Metrics (typed fields) ──► prometheus.Registry ──► /metrics
//	any package ──► *slog.Logger           ──► stderr
//
// Metrics named pilot_*, istio_* and istiod_* are Istio's. Their names, types, labels and buckets
// are those of istiod, so that the stock dashboards and alerts work unchanged. Metrics named
// lateen_* are our own.
package observe
