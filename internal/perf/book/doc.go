// Package book owns lateen perf control-plane: the performance test of the book "Istio in Action"
// (chapter 11). It creates Services with a Gateway and a VirtualService each, waits until the last
// answers through the gateway, and tells how often the control plane has pushed, and its
// convergence time. It imports perf/measure.
package book
