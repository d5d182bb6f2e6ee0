// Package agent runs lateen-agent as a Pod's container does: the real binary, a real Envoy and a
// real control plane, each a process of its own. It looks at them from outside.
package agent
