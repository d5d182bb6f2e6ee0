// Package bootstrap owns the configuration that Envoy starts with: a pure function from the
// settings to JSON. The node and its metadata, the names of static clusters and the statistics are
// those of Istio's bootstrap, because control planes, filters and dashboards go by them.
//
// It writes JSON from maps, because Envoy's generated types would cost a third of the agent's
// memory.
// It may import agent/settings and xds/proxystats.
package bootstrap
