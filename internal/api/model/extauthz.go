package model

import "time"

// ExtAuthz is an external authorizer (MeshConfig.extensionProviders).
type ExtAuthz struct {
	Name string
	// GRPC tells that it speaks Envoy's gRPC protocol; else it is asked by HTTP.
	GRPC bool
	Host Host
	Port uint16
	// Timeout is how long a call may take.
	Timeout time.Duration
	// FailOpen accepts calls while the authorizer fails.
	FailOpen bool
	// StatusOnError is the answer while the authorizer fails; 0 leaves 403.
	StatusOnError uint32
	// ClearRouteCache routes a request again by the headers that the authorizer set.
	ClearRouteCache bool
	// Body sends the request's body along; nil does not.
	Body *ExtAuthzBody
	// The rest is for HTTP.
	PathPrefix string
	// RequestHeaders are the client's headers that it gets, and AddHeaders more of them. The others
	// are headers of its answer that go on to the workload or back to the client. Names may be
	// patterns "x*" and "*x".
	RequestHeaders    []string
	AddHeaders        []SecretHeader
	UpstreamOnAllow   []string
	DownstreamOnDeny  []string
	DownstreamOnAllow []string
}

// ExtAuthzBody says how much of a request's body an authorizer gets.
type ExtAuthzBody struct {
	MaxBytes uint32
	// Partial sends the first MaxBytes of larger bodies; else those requests are refused.
	Partial bool
	// Raw sends bytes as they are, not as UTF-8 text.
	Raw bool
}

// PathNormalization says how paths of requests are changed before anything looks at them
// (MeshConfig.pathNormalization).
type PathNormalization uint8

const (
	// NormalizeBase applies RFC 3986. It is the default.
	NormalizeBase PathNormalization = iota
	// NormalizeNone leaves paths as they are.
	NormalizeNone
	// NormalizeMergeSlashes also merges slashes.
	NormalizeMergeSlashes
	// NormalizeDecode also decodes escaped slashes before they are merged.
	NormalizeDecode
)
