// Package callers tells whether the caller of a port on this machine is Envoy.
//
// The agent and Envoy listen on loopback for the Pod's own application and for operators. Whoever
// writes routes may have Envoy connect there too, by an address or by a name that leads to
// loopback. The kernel knows which process has a connection, so neither headers nor addresses are
// believed.
//
// It imports nothing of the agent.
package callers
