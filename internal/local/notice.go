package local

import (
	"fmt"
	"strings"
	"time"
)

// Notice is one thing that happened to a pod, for people to read as it happens.
type Notice struct {
	Time time.Time
	// Bad is set when something failed.
	Bad bool
	// Pod is "namespace/name", empty when the notice is about the runtime itself.
	Pod string
	// Container is the process's container, "istio-proxy" for Envoy; empty when the notice is about
	// the whole pod.
	Container string
	// Text says what happened: "exited with status 1, starts again in 500ms".
	Text string
	// Tail are the last lines that the process wrote, when it crashed.
	Tail []string
}

// String is the notice on one line, without the tail.
func (n Notice) String() string {
	var b strings.Builder
	if n.Pod != "" {
		b.WriteString(n.Pod)
		if n.Container != "" {
			fmt.Fprintf(&b, " (%s)", n.Container)
		}
		b.WriteString(": ")
	}
	b.WriteString(n.Text)
	return b.String()
}
