// Package observe runs a Prometheus beside a local mesh. It tells Prometheus which proxies there
// are, and serves their metrics, which in a cluster their agents do, and those of all containers,
// which in a cluster the kubelet does.
//
// It may import local, agent/meshstats, xds/proxystats and perf/measure.
package observe
