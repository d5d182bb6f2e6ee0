package status

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// liveAttachment is an object of the Gateway API as the API server has it.
type liveAttachment struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace       string `json:"namespace"`
		Name            string `json:"name"`
		Generation      int64  `json:"generation"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Status liveStatus `json:"status"`
}

// liveStatus has the fields of all statuses of the Gateway API that Lateen writes.
type liveStatus struct {
	Conditions []metav1.Condition               `json:"conditions,omitempty"`
	Addresses  []gatewayv1.GatewayStatusAddress `json:"addresses,omitempty"`
	Listeners  []gatewayv1.ListenerStatus       `json:"listeners,omitempty"`
	Sets       *int32                           `json:"attachedListenerSets,omitempty"`
	Parents    []gatewayv1.RouteParentStatus    `json:"parents,omitempty"`
	Ancestors  []gatewayv1.PolicyAncestorStatus `json:"ancestors,omitempty"`
}

// with returns the status that the object is to have, as what a merge patch sets. It keeps the
// conditions and parents of other controllers, and the times of conditions that stay. same reports
// whether the object has it already.
func (l *liveAttachment) with(o attached, now time.Time) (status map[string]any, same bool, err error) {
	to := conditionMaker{generation: o.generation, now: metav1.NewTime(now.UTC().Truncate(time.Second))}
	want := liveStatus{}
	s := o.status
	if s == nil { // not Lateen's any more: what others may have written in its place stays
		s = &model.GatewayAPIStatus{Meta: model.Meta{Kind: kinds.HTTPRoute}}
		if l.Kind == string(kinds.BackendTLSPolicy) {
			s.Kind = kinds.BackendTLSPolicy
		}
	}
	switch s.Kind {
	case kinds.GatewayClass:
		want.Conditions = to.merged(l.Status.Conditions, conditions{{"Accepted", s.Accepted}})
		status = map[string]any{"conditions": want.Conditions}
	case kinds.KubernetesGateway:
		want.Conditions = to.merged(l.Status.Conditions, conditions{
			{"Accepted", o.accepted()}, {"Programmed", s.Programmed}, {"ResolvedRefs", s.ResolvedRefs},
			{"InsecureFrontendValidationMode", s.Insecure}, {deployedCondition, o.undeployed},
		})
		want.Sets = &s.Sets
		want.Addresses, want.Listeners = addressesOf(s.Addresses), to.listeners(l.Status.Listeners, s.Listeners)
		status = map[string]any{
			"conditions": want.Conditions, "addresses": want.Addresses, "listeners": want.Listeners,
			"attachedListenerSets": want.Sets,
		}
	case kinds.ListenerSet:
		want.Conditions = to.merged(
			l.Status.Conditions, conditions{{"Accepted", s.Accepted}, {"Programmed", s.Programmed}},
		)
		want.Listeners = to.listeners(l.Status.Listeners, s.Listeners)
		status = map[string]any{"conditions": want.Conditions, "listeners": want.Listeners}
	case kinds.BackendTLSPolicy:
		want.Ancestors = to.ancestors(l.Status.Ancestors, s.Parents)
		status = map[string]any{"ancestors": want.Ancestors}
	default:
		want.Parents = to.parents(l.Status.Parents, s.Parents)
		status = map[string]any{"parents": want.Parents}
	}
	same, err = equalJSON(want, l.only(status))
	return status, same, err
}

// deployedCondition is False on a Gateway that is not deployed as it says. Else it is not there.
const deployedCondition = "lateen.io/Deployed"

// accepted returns the condition of a Gateway. Parameters that are not there or cannot be read are
// the Gateway's own mistake.
func (o attached) accepted() model.Condition {
	if o.undeployed.Reason == string(gatewayv1.GatewayReasonInvalidParameters) {
		return o.undeployed
	}
	return o.status.Accepted
}

// only returns what the object has of the fields of a patch.
func (l *liveAttachment) only(status map[string]any) liveStatus {
	have := liveStatus{}
	for field := range status {
		switch field {
		case "conditions":
			have.Conditions = l.Status.Conditions
		case "addresses":
			have.Addresses = l.Status.Addresses
		case "listeners":
			have.Listeners = l.Status.Listeners
		case "attachedListenerSets":
			have.Sets = l.Status.Sets
		case "parents":
			have.Parents = l.Status.Parents
		case "ancestors":
			have.Ancestors = l.Status.Ancestors
		}
	}
	return have
}

func equalJSON(a, b liveStatus) (bool, error) {
	first, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	second, err := json.Marshal(b)
	return string(first) == string(second), err
}

// conditions are what is to be said, by the type of the condition.
type conditions []struct {
	kind string
	is   model.Condition
}

// conditionMaker makes conditions of one generation.
type conditionMaker struct {
	generation int64
	now        metav1.Time
}

// merged returns conditions with others in place of those of their types. One without a reason is
// left out.
func (m conditionMaker) merged(live []metav1.Condition, want conditions) []metav1.Condition {
	out := slices.Clone(live)
	for _, w := range want {
		i := slices.IndexFunc(out, func(c metav1.Condition) bool { return c.Type == w.kind })
		if w.is.Reason == "" {
			if i >= 0 {
				out = slices.Delete(out, i, i+1)
			}
			continue
		}
		c := metav1.Condition{
			Type: w.kind, Status: metav1.ConditionFalse, Reason: w.is.Reason, Message: cut(w.is.Message),
			ObservedGeneration: m.generation, LastTransitionTime: m.now,
		}
		if w.is.Status {
			c.Status = metav1.ConditionTrue
		}
		switch {
		case i < 0:
			out = append(out, c)
			continue
		case out[i].Status == c.Status:
			c.LastTransitionTime = out[i].LastTransitionTime
		}
		out[i] = c
	}
	return out
}

func cut(message string) string {
	if len(message) > longestMessage {
		return strings.ToValidUTF8(message[:longestMessage], "")
	}
	return message
}

func (m conditionMaker) listeners(
	live []gatewayv1.ListenerStatus, want []model.ListenerStatus,
) []gatewayv1.ListenerStatus {
	out := []gatewayv1.ListenerStatus{}
	for _, w := range want {
		var before []metav1.Condition
		for _, l := range live {
			if string(l.Name) == w.Name {
				before = l.Conditions
			}
		}
		out = append(out, gatewayv1.ListenerStatus{
			Name: gatewayv1.SectionName(w.Name), SupportedKinds: routeKinds(w.Kinds), AttachedRoutes: w.Attached,
			Conditions: m.merged(before, conditions{
				{"Accepted", w.Accepted}, {"Programmed", w.Programmed}, {"ResolvedRefs", w.ResolvedRefs},
				{"Conflicted", w.Conflicted},
			}),
		})
	}
	return out
}

func routeKinds(list []kinds.Kind) []gatewayv1.RouteGroupKind {
	out := []gatewayv1.RouteGroupKind{}
	group := gatewayv1.Group(kinds.GatewayAPIGroup)
	for _, k := range list {
		out = append(out, gatewayv1.RouteGroupKind{Group: &group, Kind: gatewayv1.Kind(k)})
	}
	return out
}

// mostAddresses is how many addresses of a Gateway the API server takes. With more it refuses the
// whole status.
const mostAddresses = 16

func addressesOf(list []string) []gatewayv1.GatewayStatusAddress {
	out := []gatewayv1.GatewayStatusAddress{}
	for _, value := range list[:min(len(list), mostAddresses)] {
		kind := gatewayv1.HostnameAddressType
		if _, err := netip.ParseAddr(value); err == nil {
			kind = gatewayv1.IPAddressType
		}
		out = append(out, gatewayv1.GatewayStatusAddress{Type: &kind, Value: value})
	}
	return out
}

// parents returns the parents of other controllers, and after them Lateen's.
func (m conditionMaker) parents(
	live []gatewayv1.RouteParentStatus, want []model.ParentStatus,
) []gatewayv1.RouteParentStatus {
	out := []gatewayv1.RouteParentStatus{}
	ours := map[string][]metav1.Condition{}
	for _, p := range live {
		if p.ControllerName == model.GatewayController {
			ours[textOf(p.ParentRef)] = p.Conditions
		} else {
			out = append(out, p)
		}
	}
	for _, w := range want {
		ref := parentReference(w.Ref)
		out = append(out, gatewayv1.RouteParentStatus{
			ParentRef: ref, ControllerName: model.GatewayController,
			Conditions: m.merged(ours[textOf(ref)], conditions{
				{"Accepted", w.Accepted}, {"ResolvedRefs", w.ResolvedRefs}, {"PartiallyInvalid", w.PartiallyInvalid},
			}),
		})
	}
	return out
}

// ancestors returns the ancestors of other controllers, and after them Lateen's, as many as a
// status may have.
func (m conditionMaker) ancestors(
	live []gatewayv1.PolicyAncestorStatus, want []model.ParentStatus,
) []gatewayv1.PolicyAncestorStatus {
	const most = 16
	out := []gatewayv1.PolicyAncestorStatus{}
	ours := map[string][]metav1.Condition{}
	for _, a := range live {
		if a.ControllerName == model.GatewayController {
			ours[textOf(a.AncestorRef)] = a.Conditions
		} else {
			out = append(out, a)
		}
	}
	for _, w := range want[:min(len(want), max(0, most-len(out)))] {
		ref := parentReference(w.Ref)
		out = append(out, gatewayv1.PolicyAncestorStatus{
			AncestorRef: ref, ControllerName: model.GatewayController,
			Conditions: m.merged(ours[textOf(ref)], conditions{
				{"Accepted", w.Accepted}, {"ResolvedRefs", w.ResolvedRefs},
			}),
		})
	}
	return out
}

// textOf identifies a parent.
func textOf(ref gatewayv1.ParentReference) string {
	text, err := json.Marshal(ref)
	if err != nil {
		return fmt.Sprint(ref.Name)
	}
	return string(text)
}

func parentReference(p model.ParentRef) gatewayv1.ParentReference {
	group, kind := gatewayv1.Group(p.Group), gatewayv1.Kind(p.Kind)
	out := gatewayv1.ParentReference{Group: &group, Kind: &kind, Name: gatewayv1.ObjectName(p.Name)}
	if p.Namespace != "" {
		namespace := gatewayv1.Namespace(p.Namespace)
		out.Namespace = &namespace
	}
	if p.Section != "" {
		section := gatewayv1.SectionName(p.Section)
		out.SectionName = &section
	}
	if p.Port != 0 {
		port := gatewayv1.PortNumber(p.Port)
		out.Port = &port
	}
	return out
}
