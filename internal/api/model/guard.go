package model

// Guard is an AuthorizationPolicy or a PeerAuthentication, as far as it can be kept: it lets the calls of its workloads in or
// refuses them. Nothing tells callers and requests apart yet, so what depends on them refuses.
type Guard struct {
	Meta
	Selector Labels // empty: all workloads of the namespace, or of the mesh if it is the root namespace
	Effect   GuardEffect
	// Ports have an effect of their own (PeerAuthentication.port_level_mtls), by the port of the workload, sorted.
	Ports []GuardedPort
}

// GuardedPort is a port with an effect of its own.
type GuardedPort struct {
	Port   uint16
	Effect GuardEffect
}

// GuardEffect is what a Guard does to calls.
type GuardEffect uint8

const (
	// GuardSilent leaves it to other guards: a mode that is not set, a DENY that never matches.
	GuardSilent GuardEffect = iota
	// GuardAdmits lets all calls in.
	GuardAdmits
	// GuardAdmitsNone is an ALLOW policy that allows nothing: calls are refused unless another one admits them.
	GuardAdmitsNone
	// GuardRefuses refuses all calls, whatever other policies allow; of a PeerAuthentication, those that are not in TLS of the mesh.
	GuardRefuses
)
