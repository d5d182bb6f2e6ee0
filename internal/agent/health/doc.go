// Package health probes the workload beside the agent of a machine outside of Kubernetes, where no
// kubelet does, and says when that becomes healthy or ceases to be.
//
// It may import agent/settings.
package health
