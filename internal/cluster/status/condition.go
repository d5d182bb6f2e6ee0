package status

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	networkingk8s "k8s.io/api/networking/v1"

	"github.com/lateen-mesh/lateen/internal/source"
)

// The condition that Lateen writes, in the terms of the Gateway API, which users of kubectl know.
const (
	conditionType  = "Accepted"
	reasonAccepted = "Accepted"             // all of it is in force
	reasonWarnings = "AcceptedWithWarnings" // all of it is in force, some of it hardly as it was meant
	reasonInvalid  = "Invalid"              // what the message names is not in force
)

const statusTrue, statusFalse = "True", "False"

// longestMessage is the limit of one condition's message in bytes.
const longestMessage = 4096

// condition is one of status.conditions, as IstioCondition has it.
type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message,omitempty"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime,omitempty"`
}

// conditionOf returns the condition of an Observation, without a time.
func conditionOf(o Observation) condition {
	c := condition{Type: conditionType, Status: statusTrue, Reason: reasonAccepted, ObservedGeneration: o.Generation}
	var lines []string
	size := 0
	for i, p := range o.Problems {
		if p.Severity == source.Error {
			c.Status, c.Reason = statusFalse, reasonInvalid
		} else if c.Status == statusTrue {
			c.Reason = reasonWarnings
		}
		line := p.Severity.String() + ": " + p.Detail()
		if size += len(line) + 1; size > longestMessage {
			lines = append(lines, fmt.Sprintf("and %d more problems", len(o.Problems)-i))
			break
		}
		lines = append(lines, line)
	}
	if note := noteHead + o.Note; o.Note != "" && size+len(note) <= longestMessage {
		lines = append(lines, note)
	}
	c.Message = strings.Join(lines, "\n")
	return c
}

// noteHead begins the last part of a message, a note.
const noteHead = "of the proxies of this control plane:\n"

// sameContent reports whether two conditions differ at most in their times, and in a note that one
// of them lacks: after a start it is not known yet.
func (c condition) sameContent(o condition) bool {
	c.LastTransitionTime, o.LastTransitionTime = "", ""
	mine, noted := c.withoutNote()
	others, alsoNoted := o.withoutNote()
	if noted != alsoNoted {
		c.Message, o.Message = mine, others
	}
	return c == o
}

// withoutNote returns the message without its note, and whether it has one.
func (c condition) withoutNote() (message string, noted bool) {
	message, _, noted = strings.Cut(c.Message, noteHead)
	return strings.TrimSuffix(message, "\n"), noted
}

// liveObject is an object as the API server has it: its status, and the metadata that a patch
// needs.
type liveObject struct {
	Metadata struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		UID             string `json:"uid"`
		Generation      int64  `json:"generation"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		Conditions   []json.RawMessage `json:"conditions"`
		LoadBalancer struct {
			Ingress []networkingk8s.IngressLoadBalancerIngress `json:"ingress"`
		} `json:"loadBalancer"` // of an Ingress
	} `json:"status"`
}

// own returns the condition that Lateen has written and its place; -1 if there is none.
func (l *liveObject) own() (condition, int) {
	for i, raw := range l.Status.Conditions {
		var c condition
		if json.Unmarshal(raw, &c) == nil && c.Type == conditionType {
			return c, i
		}
	}
	return condition{}, -1
}

// patch returns the merge patch that sets the condition. It keeps the conditions of others, and the
// time of ours unless its status changes. The resourceVersion makes the patch fail with a conflict
// if the object has changed meanwhile.
func (l *liveObject) patch(c condition, now time.Time) ([]byte, error) {
	before, at := l.own()
	c.LastTransitionTime = before.LastTransitionTime
	if at < 0 || before.Status != c.Status {
		c.LastTransitionTime = now.UTC().Format(time.RFC3339)
	}
	mine, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	conditions := slices.Clone(l.Status.Conditions)
	if at < 0 {
		conditions = append(conditions, mine)
	} else {
		conditions[at] = mine
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": l.Metadata.ResourceVersion},
		"status":   map[string]any{"conditions": conditions, "observedGeneration": c.ObservedGeneration},
	})
}
