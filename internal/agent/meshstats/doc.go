// Package meshstats turns Envoy's exposition of statistics into one with Istio's standard metrics.
// Envoy's own metrics pass as they are. Statistics in the form of xds/proxystats get Istio's names
// and labels, those of the proxy's own workload among them, and series that have equal labels then
// are added up.
//
// It may import xds/proxystats.
package meshstats
