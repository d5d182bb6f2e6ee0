package model

import "strings"

// AuthorizationPolicy says which calls its workloads accept.
type AuthorizationPolicy struct {
	Meta
	Selection
	Action AuthorizationAction
	// DryRun says that the policy is evaluated and counted, and decides nothing.
	DryRun bool
	// Provider is asked by a policy with AuthorizationCustom; canonical.
	Provider *ExtAuthz
	// Rules are canonical. A call matches the policy if it matches one of them.
	Rules *AuthorizationRules
}

// Decides reports whether the policy may refuse calls.
func (p *AuthorizationPolicy) Decides() bool { return !p.DryRun && p.Action != AuthorizationAudit }

// AuthorizationAction is what happens to calls that match a policy.
type AuthorizationAction uint8

const (
	// AuthorizationAllow accepts calls that match. Where a policy has it, calls that match none of
	// these are refused.
	AuthorizationAllow AuthorizationAction = iota
	// AuthorizationDeny refuses calls that match, whatever other policies allow.
	AuthorizationDeny
	// AuthorizationAudit marks calls that match, for access logs.
	AuthorizationAudit
	// AuthorizationCustom asks the provider about calls that match.
	AuthorizationCustom
)

// AuthorizationRules are the rules of a policy.
type AuthorizationRules struct{ List []AuthorizationRule }

// AuthorizationRule matches a call that matches one of From, one of To, and all of When. An empty
// list matches every call.
type AuthorizationRule struct {
	Index    int // in the policy that users wrote
	From, To []AuthorizationConditions
	When     AuthorizationConditions
}

// AuthorizationConditions match a call that matches all of them.
type AuthorizationConditions []AuthorizationCondition

// AuthorizationCondition is a condition on one attribute of a call. The call matches if the
// attribute has one of Values, unless there are none, and none of NotValues.
//
// A value is "*" for any value, "x*" for a prefix, "*x" for a suffix, or the value itself. The
// exceptions: addresses are prefixes as "10.0.0.0/8"; ports are decimal numbers; service accounts
// are "namespace/name"; and paths may have the operators "{*}" and "{**}".
type AuthorizationCondition struct {
	Attribute AuthorizationAttribute
	// Path is the name of a header, the names of nested claims, or the filter and key of metadata.
	Path              []string
	Values, NotValues []string
}

// AuthorizationAttribute is an attribute of a call.
type AuthorizationAttribute uint8

const (
	// SourcePrincipal is the identity of the caller, without "spiffe://".
	SourcePrincipal AuthorizationAttribute = iota
	// SourceNamespace, SourceServiceAccount and SourceTrustDomain are parts of that identity.
	SourceNamespace
	SourceServiceAccount
	SourceTrustDomain
	// SourceIP is the address that the connection comes from.
	SourceIP
	// RemoteIP is the address of the client, as trusted proxies report it.
	RemoteIP
	// RequestPrincipal is "issuer/subject" of the request's token.
	RequestPrincipal
	// RequestAudiences, RequestPresenter and RequestClaim are claims of the token.
	RequestAudiences
	RequestPresenter
	RequestClaim
	// RequestHeader is a header by its name.
	RequestHeader
	// DestinationIP and DestinationPort are those that the connection goes to.
	DestinationIP
	DestinationPort
	// ConnectionSNI is the server name that the client asked for in TLS.
	ConnectionSNI
	// FilterMetadata is what a filter of Envoy left.
	FilterMetadata
	// RequestHost, RequestMethod and RequestPath are those of the request.
	RequestHost
	RequestMethod
	RequestPath
)

// attributeNames are what users call attributes, by the attribute.
const attributeNames = "source.principal source.namespace source.serviceAccount source.trustDomain source.ip " +
	"remote.ip request.auth.principal request.auth.audiences request.auth.presenter request.auth.claims " +
	"request.headers destination.ip destination.port connection.sni experimental.envoy.filters host method path"

// String is what users call the attribute.
func (a AuthorizationAttribute) String() string { return strings.Fields(attributeNames)[a] }

// String is the name of the action.
func (a AuthorizationAction) String() string { return strings.Fields("ALLOW DENY AUDIT CUSTOM")[a] }

// IsHTTP reports whether only requests have the attribute, not connections of bytes.
func (a AuthorizationAttribute) IsHTTP() bool {
	switch a {
	case RequestHeader, RequestHost, RequestMethod, RequestPath:
		return true
	}
	return a.IsToken()
}

// IsToken reports whether the attribute is of a token that has been verified.
func (a AuthorizationAttribute) IsToken() bool {
	switch a {
	case RequestPrincipal, RequestAudiences, RequestPresenter, RequestClaim:
		return true
	}
	return false
}
