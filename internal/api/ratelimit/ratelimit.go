package ratelimit

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Group and Version are those of the API.
const (
	Group   = "lateen.io"
	Version = "v1alpha1"
)

// RateLimit limits the requests to workloads, or those of Gateways and routes.
type RateLimit struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// Spec is what a user writes. One of Local and Global is set.
type Spec struct {
	// Selector selects workloads of the namespace by labels. Without it and TargetRefs the object
	// is for all of the namespace, and in the root namespace for all of the mesh.
	Selector *Selector `json:"selector,omitempty"`
	// TargetRefs name Gateways and routes of the namespace, in place of Selector.
	TargetRefs []TargetRef `json:"targetRefs,omitempty"`
	// Mode is Enforce by default. With Shadow requests are counted and none is refused.
	Mode Mode `json:"mode,omitempty"`
	// ResponseHeaders is None by default.
	ResponseHeaders ResponseHeaders `json:"responseHeaders,omitempty"`
	Local           *Local          `json:"local,omitempty"`
	Global          *Global         `json:"global,omitempty"`
}

// Selector selects workloads by labels.
type Selector struct {
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// TargetRef names a Gateway or HTTPRoute or GRPCRoute of the Gateway API, or a VirtualService.
type TargetRef struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	// SectionName is the name of one rule of a route; empty for all.
	SectionName string `json:"sectionName,omitempty"`
}

// Mode is what becomes of requests above a limit.
type Mode string

// The modes.
const (
	Enforce Mode = "Enforce"
	Shadow  Mode = "Shadow"
)

// ResponseHeaders is what clients are told of their limit.
type ResponseHeaders string

// What clients may be told.
const (
	NoHeaders ResponseHeaders = "None"
	// DraftVersion03 is x-ratelimit-limit, -remaining and -reset, and retry-after of a refused
	// request (draft-polli-ratelimit-headers-03).
	DraftVersion03 ResponseHeaders = "DraftVersion03"
)

// Local has limits that each proxy keeps for itself.
type Local struct {
	Limits []LocalLimit `json:"limits"`
	// MaxValues is for how many values of By a limit remembers a bucket; 10,000 by default.
	MaxValues int32 `json:"maxValues,omitempty"`
}

// LocalLimit is a token bucket, or one for each value of By.
type LocalLimit struct {
	Descriptor `json:",inline"`
	// Requests is how many requests pass in each Per.
	Requests int64 `json:"requests"`
	Per      Unit  `json:"per"`
	// Burst is how many pass at once after a calm; Requests by default.
	Burst int64 `json:"burst,omitempty"`
}

// Unit is a time.
type Unit string

// The units.
const (
	Second Unit = "Second"
	Minute Unit = "Minute"
	Hour   Unit = "Hour"
	Day    Unit = "Day"
)

// Global asks a server of Envoy's rate limit service about each request.
type Global struct {
	Service Service `json:"service"`
	// Domain is that of the server's configuration.
	Domain string `json:"domain"`
	// Timeout is how long proxies wait for the server; 100ms by default.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// FailClosed has requests answered with 503 while the server does not answer. Else they pass.
	FailClosed  bool         `json:"failClosed,omitempty"`
	Descriptors []Descriptor `json:"descriptors"`
}

// Service is a service of the mesh that speaks gRPC.
type Service struct {
	// Host is its full name, or a short one of the object's namespace.
	Host string `json:"host"`
	Port int32  `json:"port"`
}

// Descriptor says which requests count, and what they are told apart by.
type Descriptor struct {
	// Name is the value of the first entry, "limit". That of a local one is its place by default.
	Name  string `json:"name,omitempty"`
	Match *Match `json:"match,omitempty"`
	By    []By   `json:"by,omitempty"`
	// Cost is how much a request counts; 1 by default.
	Cost int64 `json:"cost,omitempty"`
}

// Match is met by requests that meet each of its fields.
type Match struct {
	// Paths are those of which one matches, without the query.
	Paths   []StringMatch `json:"paths,omitempty"`
	Methods []string      `json:"methods,omitempty"`
	// Headers have all to match.
	Headers []HeaderMatch `json:"headers,omitempty"`
	// Claims of a verified token have all to match.
	Claims []ClaimMatch `json:"claims,omitempty"`
	// Principals are callers as AuthorizationPolicies have them ("cluster.local/ns/shop/sa/web"),
	// and Namespaces theirs. In each one matches.
	Principals []string `json:"principals,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
}

// StringMatch has one field. A regular expression (RE2) matches the whole text.
type StringMatch struct {
	Exact  string `json:"exact,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	Regex  string `json:"regex,omitempty"`
}

// HeaderMatch matches a header with a value; any value without a StringMatch.
type HeaderMatch struct {
	Name        string `json:"name"`
	StringMatch `json:",inline"`
}

// ClaimMatch matches a claim that is one of the values, or a list with one of them.
type ClaimMatch struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// By is what requests are told apart by. One of Header, Claim, Request and Source is set. Requests
// without a value are counted together.
type By struct {
	Header  string       `json:"header,omitempty"`
	Claim   string       `json:"claim,omitempty"`
	Request RequestValue `json:"request,omitempty"`
	Source  SourceValue  `json:"source,omitempty"`
	// Key is that of the entry that a server gets; the name of the header or claim, or the value of
	// Request or Source, by default.
	Key string `json:"key,omitempty"`
}

// RequestValue is a value that each request has.
type RequestValue string

// The values of requests.
const (
	Path   RequestValue = "Path" // without the query
	Method RequestValue = "Method"
	Host   RequestValue = "Host"
)

// SourceValue says who calls.
type SourceValue string

// The values of sources.
const (
	// Principal is the caller's identity in mutual TLS, "spiffe://cluster.local/ns/shop/sa/web".
	Principal SourceValue = "Principal"
	// Address is the caller's IP address, that of the client behind trusted proxies.
	Address SourceValue = "Address"
)

// Status has the condition that the control plane writes.
type Status struct {
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (l *RateLimit) DeepCopyObject() runtime.Object { return l.DeepCopy() }
