package source

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// Key names one object. Namespace is empty for cluster-scoped kinds.
type Key struct {
	Kind      kinds.Kind
	Namespace string
	Name      string
}

// String returns the form shown to users: "VirtualService default/reviews".
func (k Key) String() string {
	if k.Namespace == "" {
		return fmt.Sprintf("%s %s", k.Kind, k.Name)
	}
	return fmt.Sprintf("%s %s/%s", k.Kind, k.Namespace, k.Name)
}

// Compare orders keys by kind, namespace and name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// Change is one object that was created or updated (Object set), or deleted (Object nil).
type Change struct {
	Key Key
	// Object is a typed pointer: *corev1.Service, *discoveryv1.EndpointSlice,
	// *networkingv1.VirtualService (istio.io/client-go), … It is not changed after it was handed
	// over.
	Object metav1.Object
	// Origin tells a user where the object is: "examples/bookinfo/reviews.yaml:12", or empty for an
	// API server.
	Origin string
	// Partial is set if Object lacks fields of the object as it was written, since they could not
	// be read, or stands for one that could not be read at all.
	Partial bool
	// ObservedAt is when the change reached this process; the end-to-end metric counts from it.
	ObservedAt time.Time
}

// Severity says whether a Problem keeps something out of force.
type Severity uint8

const (
	// Warning: everything is in force, but probably not with the effect that was meant.
	Warning Severity = iota
	// Error: the object, or the named part of it, is not in force.
	Error
)

// String returns the word shown to users.
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Code says of a Problem that a metric counts its kind; it is 0 for all others.
type Code uint8

const (
	_ Code = iota
	// DuplicateDomain: another VirtualService comes first for a host.
	DuplicateDomain
	// DuplicateHost: another Service or ServiceEntry comes first for a host.
	DuplicateHost
	// OutboundConflict: another service has the TCP port, for callers.
	OutboundConflict
	// InboundConflict: another service leads to the same port of the workloads, by another
	// protocol.
	InboundConflict
)

// Problem is one mistake in what a user wrote. Its text tells how to fix it without reading code.
type Problem struct {
	Severity Severity
	Object   Key    // zero when not even that could be read
	Origin   string // file:line, or empty
	Path     string // field path: "spec.http[0].route[1].destination.subset"
	Value    string // the offending value as written; never a secret
	Message  string // what is wrong: "subset is not defined by any DestinationRule for this host"
	Want     string // what would be right: "one of v1, v2, v3"
	Code     Code   // for metrics
}

// String returns one line for logs and terminals.
func (p Problem) String() string {
	s := p.Severity.String() + ": "
	if p.Origin != "" {
		s += p.Origin + ": "
	}
	if p.Object != (Key{}) {
		s += p.Object.String() + ": "
	}
	return s + p.Detail()
}

// Detail returns one line for a reader who knows which object it is about.
func (p Problem) Detail() string {
	s := ""
	if p.Path != "" {
		s += p.Path
		if p.Value != "" {
			s += fmt.Sprintf(" = %q", p.Value)
		}
		s += ": "
	}
	s += p.Message
	if p.Want != "" {
		s += "; want " + p.Want
	}
	return s
}

// Report states all problems of one origin (a file, or the directory itself) at this moment. It
// replaces the earlier report for that origin; an empty one clears it.
type Report struct {
	Origin   string
	Problems []Problem
}

// Place is the new location of an object that did not change, because lines above it were added or
// removed.
type Place struct {
	Key    Key
	Origin string
}

// Event is what a source delivers at once. Changes were seen together. Moved are unchanged objects
// at a new place. Reports say what could not be read. Synced is set when everything that existed at
// the start has been delivered, this event included.
type Event struct {
	Changes []Change
	Moved   []Place
	Reports []Report
	Synced  bool
}

// Sink takes the events of a source. It may block: the source then waits, so no queue grows without
// bound.
type Sink func(Event)

// Source delivers events until its context ends. Once the initial state is delivered, it sends one
// Event with Synced.
type Source interface {
	Run(ctx context.Context, sink Sink) error
}
