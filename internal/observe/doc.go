// Package observe owns what operators see of Lateen in numbers and lines: the metric definitions,
// with fixed names, labels and buckets, and the logger. It stands under every other package and
// imports none of ours.
//
//	any package ──► Metrics (typed fields) ──► prometheus.Registry ──► /metrics
//	any package ──► *slog.Logger           ──► stderr
//
// Metrics named pilot_*, istio_* and istiod_* are Istio's: their names, types, labels and buckets
// are those of istiod, so that the stock dashboards and alerts work unchanged. Metrics named
// lateen_* are our own.
package observe
