// Package envoy owns the Envoy process beside the agent: its command line, its start, and its end.
// It never starts Envoy again: the container ends with Envoy, and the kubelet starts both anew.
//
// It may import agent/settings.
package envoy
