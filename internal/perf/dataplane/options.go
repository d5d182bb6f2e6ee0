package dataplane

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

// The paths of requests.
const (
	Baseline    = "baseline"
	Sidecar     = "sidecar"
	Ingress     = "ingress"
	Handwritten = "handwritten"
	// SidecarBack leads from the server by both sidecars to the client, and IngressClient from the
	// gateway to the client.
	SidecarBack   = "sidecar-back"
	IngressClient = "ingress-client"
)

// Paths returns the paths to the server, in the order in which they are measured.
func Paths() []string { return []string{Baseline, Sidecar, Ingress, Handwritten} }

// AllPaths returns all paths, in the order in which they are measured.
func AllPaths() []string { return append(Paths(), SidecarBack, IngressClient) }

// clientServes reports whether requests lead to the client too.
func (o Options) clientServes() bool {
	return slices.Contains(o.Paths, SidecarBack) || slices.Contains(o.Paths, IngressClient)
}

// Options say what is measured.
type Options struct {
	// Envoy is the path of the Envoy binary, and Self that of this program: pods run "Self server".
	Envoy, Self string
	// StateDir gets manifests, bootstraps and logs.
	StateDir string
	// IstioVersion is the ISTIO_VERSION in the node metadata of proxies.
	IstioVersion string
	// Version is that of this program, for results.
	Version string

	Protocol traffic.Protocol
	// Paths are those of AllPaths that are measured. The baseline always is.
	Paths []string
	// QPS and Connections make the cases: each number of requests a second (0: as many as get
	// answers) with each number of connections.
	QPS         []float64
	Connections []int
	Payload     int // bytes
	// Duration is how long one path of one case is measured at a time, and Rounds how often.
	Duration time.Duration
	Rounds   int

	// MutualTLS is whether proxies call each other in mutual TLS.
	MutualTLS bool
	// Workers is the number of worker threads of each proxy.
	Workers int
	// Telemetry is whether proxies measure requests, AccessLogs whether they write a line for each.
	Telemetry, AccessLogs bool
	// JSONLogs is whether these lines are JSON.
	JSONLogs bool
	// Tracing is whether proxies have a tracer, and Sampling the percentage of requests whose spans
	// they send.
	Tracing  bool
	Sampling float64
	// Policies is how many AuthorizationPolicies the server has.
	Policies int
	// Knobs are the names of those that RunKnobs measures beside KnobOff; empty: all.
	Knobs []string

	// knobs adds what RunKnobs needs: proxies with one worker, and metrics that can be turned on.
	knobs bool
	// fewMetrics leaves of Istio's metrics the number of requests alone, with fewer tags.
	fewMetrics bool

	Log *slog.Logger
	// Progress is told how many of all measurements are done. It may be nil.
	Progress func(what string, done, all int)
}

// Validate reports all that is wrong with the options.
func (o Options) Validate() error {
	var all []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			all = append(all, fmt.Errorf(format, args...))
		}
	}
	check(slices.Contains(traffic.Protocols(), string(o.Protocol)), "protocol %q: want one of %s", o.Protocol,
		strings.Join(traffic.Protocols(), ", "))
	for _, p := range o.Paths {
		check(slices.Contains(AllPaths(), p), "path %q: want one of %s", p, strings.Join(AllPaths(), ", "))
	}
	check(!o.clientServes() || o.Protocol != traffic.TCP, "paths %s and %s: want a protocol other than %s", SidecarBack,
		IngressClient, traffic.TCP)
	check(len(o.QPS) > 0, "no number of requests a second: want one or more")
	check(len(o.Connections) > 0, "no number of connections: want one or more")
	for _, c := range o.Connections {
		check(c >= 1 && c <= maxConnections, "connections %d: want 1 to %d", c, maxConnections)
	}
	for _, q := range o.QPS {
		check(q >= 0, "qps %v: want 0 (as many as possible) or more", q)
	}
	check(o.Payload >= 0 && o.Payload <= maxPayload, "payload %d: want 0 to %d bytes", o.Payload, maxPayload)
	check(o.Duration > 0, "duration %v: want a longer one", o.Duration)
	check(o.Rounds >= 1, "rounds %d: want 1 or more", o.Rounds)
	check(o.Workers >= 1, "workers %d: want 1 or more", o.Workers)
	check(o.Sampling >= 0 && o.Sampling <= 100, "tracing %v: want a percentage", o.Sampling)
	check(o.Policies >= 0, "policies %d: want 0 or more", o.Policies)
	return errors.Join(all...)
}

const (
	maxConnections = 1024
	// maxPayload is the largest body that Fortio's gRPC server takes by default, in bytes, less a
	// part for what is around it.
	maxPayload = 4<<20 - 1<<10
)
