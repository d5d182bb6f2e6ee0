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

// String is the form shown to users: "VirtualService default/reviews".
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
	// Object is a typed pointer: *corev1.Service, *discoveryv1.EndpointSlice, *networkingv1.VirtualService
	// (istio.io/client-go), … It is not changed after it was handed over.
	Object metav1.Object
	// Origin tells a user where the object stands: "examples/bookinfo/reviews.yaml:12", or empty for an API server.
	Origin string
	// ObservedAt is when the change reached this process; the end-to-end metric counts from it.
	ObservedAt time.Time
}

// Severity tells whether something was left out because of a Problem.
type Severity uint8

const (
	// Warning: everything is applied, but hardly as it was meant.
	Warning Severity = iota
	// Error: the object, or the named part of it, is not in force.
	Error
)

// String is the word shown to users.
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Problem is one mistake in what a user wrote, told so that it can be mended without reading code.
type Problem struct {
	Severity Severity
	Object   Key    // zero when not even that could be read
	Origin   string // file:line, or empty
	Path     string // field path: "spec.http[0].route[1].destination.subset"
	Value    string // the offending value as written; never a secret
	Message  string // what is wrong: "subset is not defined by any DestinationRule for this host"
	Want     string // what would be right: "one of v1, v2, v3"
}

// String is one line for logs and terminals.
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

// Detail is one line for somebody who knows which object it is about.
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

// Report states all problems of one origin (a file, or the directory itself) as of now: it replaces the
// report made for that origin before, and an empty one clears it.
type Report struct {
	Origin   string
	Problems []Problem
}

// Place is where an object stands that did not change: somebody wrote something above it.
type Place struct {
	Key    Key
	Origin string
}

// Event is what a source delivers at once: changes that were seen together, objects that stand elsewhere now, reports on what
// could not be read, and whether with it everything that existed at the start was delivered.
type Event struct {
	Changes []Change
	Moved   []Place
	Reports []Report
	Synced  bool
}

// Sink takes the events of a source. It may block: a source then waits, so nothing is queued without bound.
type Sink func(Event)

// Source delivers events until its context ends. It delivers an Event with Synced once, after the initial state.
type Source interface {
	Run(ctx context.Context, sink Sink) error
}
