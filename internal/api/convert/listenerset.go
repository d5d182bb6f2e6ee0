package convert

import (
	"fmt"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// listenerSet reads further listeners of a Gateway.
func (r *reader) listenerSet(in *gatewayv1.ListenerSet) []Object {
	p, ref := path("spec"), in.Spec.ParentRef
	out := &model.ListenerSet{Meta: r.meta}
	group, kind := kinds.GatewayAPIGroup, "Gateway"
	if ref.Group != nil {
		group = string(*ref.Group)
	}
	if ref.Kind != nil {
		kind = string(*ref.Kind)
	}
	if group != kinds.GatewayAPIGroup || kind != "Gateway" {
		r.fail(p.dot("parentRef.kind"), kind, "is no parent that has listeners; the ListenerSet is not in force",
			"a Gateway")
	} else {
		out.Parent = model.ObjectName{Namespace: r.meta.Namespace, Name: string(ref.Name)}
		if ref.Namespace != nil {
			out.Parent.Namespace = string(*ref.Namespace)
		}
	}
	var list []gatewayv1.Listener
	for _, l := range in.Spec.Listeners {
		list = append(list, gatewayv1.Listener(l))
	}
	out.Listeners = r.listeners(p.dot("listeners"), list)
	return []Object{out}
}

// allowedListeners reads which ListenerSets may attach; without it, none may.
func (r *reader) allowedListeners(p path, in *gatewayv1.AllowedListeners) model.NamespaceSelector {
	if in == nil || in.Namespaces == nil || in.Namespaces.From == nil {
		return model.NamespaceSelector{}
	}
	return r.namespaceSelector(p, &gatewayv1.RouteNamespaces{
		From: in.Namespaces.From, Selector: in.Namespaces.Selector,
	})
}

// listeners reads the listeners of one object. Those of a ListenerSet that cannot be told apart are
// settled with the Gateway's, the first one wins.
func (r *reader) listeners(p path, in []gatewayv1.Listener) []model.Listener {
	var list []model.Listener
	seen := map[gatewayv1.SectionName]bool{}
	for i := range in {
		l, at := &in[i], p.at(i)
		if seen[l.Name] || !isObjectName(string(l.Name)) {
			r.fail(at.dot("name"), l.Name, "is no name of its own; the listener is left out",
				"a name that no other has")
			continue
		}
		seen[l.Name] = true
		list = append(list, r.listener(at, l))
	}
	return list
}

// conflicts marks the listeners that cannot be told apart. None of them is in force: the
// specification lets no one win.
func conflicts(list []model.Listener) {
	for i := range list {
		for j := range list {
			if i == j || !list[i].Accepted.Status || !list[j].Accepted.Status {
				continue
			}
			if reason := model.ConflictOf(&list[i], &list[j]); reason != "" && !list[i].Conflicted.Status {
				list[i].Conflicted = model.Condition{
					Status: true, Reason: reason,
					Message: fmt.Sprintf("listener %s wants the same of port %d", list[j].Name, list[j].Port),
				}
			}
		}
	}
	for i := range list {
		if c := list[i].Conflicted; c.Status {
			list[i].Accepted = model.Condition{Reason: c.Reason, Message: c.Message}
		}
	}
}

func (r *reader) reportConflicts(p path, list []model.Listener) {
	for i := range list {
		if c := list[i].Conflicted; c.Status {
			r.fail(p.key(list[i].Name), strings.TrimSpace(list[i].Name),
				c.Message+"; both stay closed", "a port or a hostname of its own")
		}
	}
}
