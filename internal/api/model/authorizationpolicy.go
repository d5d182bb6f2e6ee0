package model

// AuthorizationPolicy says which calls its workloads accept. Its rules are not kept yet: a policy
// that depends on callers or requests refuses.
type AuthorizationPolicy struct {
	Meta
	// Selector is empty for all workloads of the namespace, or of the mesh in the root namespace.
	Selector Labels
	Effect   AuthorizationEffect
}

// AuthorizationEffect is what an AuthorizationPolicy does to calls.
type AuthorizationEffect uint8

const (
	// NoEffect leaves calls to other policies: a DENY that never matches, an AUDIT.
	NoEffect AuthorizationEffect = iota
	// AllowAll is an ALLOW policy that matches all calls.
	AllowAll
	// AllowNothing is an ALLOW policy that matches no call: calls need another policy with
	// AllowAll.
	AllowNothing
	// DenyAll refuses all calls, whatever other policies allow.
	DenyAll
)
