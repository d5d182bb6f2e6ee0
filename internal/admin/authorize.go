package admin

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Authorize answers a question about a generation, with the problems that concern the policies. A
// token issuer's keys count as fetched if hasKeys is nil.
func Authorize(
	w *state.Snapshot, problems []source.Problem, hasKeys func(uri string) bool, q page.AuthzQuestion,
) (*page.AuthzAnswer, error) {
	return authorizer{w, problems, hasKeys}.answer(q)
}

// authorize answers /debug/authorize?namespace=…&workload=…&call=…, the call as JSON.
func (m *Mesh) authorize(query url.Values) (any, error) {
	w := m.Snapshot()
	if w == nil {
		return nil, errNotReady
	}
	q, err := page.AuthzQuestionOf(query)
	if err != nil {
		return nil, err
	}
	hasKeys := func(uri string) bool {
		set := w.KeySet(uri)
		return set != nil && set.Keys != ""
	}
	return Authorize(w, m.Problems(), hasKeys, q)
}

// authorizer looks up policies in one generation.
type authorizer struct {
	w        *state.Snapshot
	problems []source.Problem
	hasKeys  func(uri string) bool
}

func (a authorizer) answer(q page.AuthzQuestion) (*page.AuthzAnswer, error) {
	pods := a.pods(q.Namespace, q.Workload)
	if len(pods) == 0 {
		return nil, fmt.Errorf("workload %.253q of namespace %.253q %w", q.Workload, q.Namespace, errNotDescribed)
	}
	out := &page.AuthzAnswer{Workload: q.Namespace + "/" + pods[0].Name}
	w := a.workload(pods[0], q.Call.Port)
	for _, other := range pods[1:] {
		if !sameSelected(w, a.workload(other, q.Call.Port)) {
			return nil, fmt.Errorf("%.253q fits Pods with different policies, as %s and %s; want the name of a Pod",
				q.Workload, pods[0].Name, other.Name)
		}
	}
	if !q.Call.Destination.IsValid() && len(pods) == 1 && len(pods[0].Addresses) > 0 {
		q.Call.Destination, _ = netip.ParseAddr(pods[0].Addresses[0])
	}
	if account := strings.Split(q.Call.Identity, "/"); len(account) == 2 {
		q.Call.Identity = model.IdentityOf(a.w.Mesh.TrustDomain, account[0], account[1])
	}
	out.Report = policy.Check(w, q.Call)
	if own := (describer{w: a.w}).mtls(pods[0]).Own; q.Call.Port == 0 && own != nil && len(own.Ports) > 0 {
		out.Notes = append(out.Notes, own.Key().String()+" has modes for ports of their own, and the port is not given")
	}
	for _, problem := range a.problems {
		if a.concerns(w, problem.Object) {
			out.Problems = append(out.Problems, problem.String())
		}
	}
	return out, nil
}

// pods returns the Pod of a name, or those whose names begin with it and a dash.
func (a authorizer) pods(namespace, name string) (found []*model.Workload) {
	if pod := a.w.Workload(namespace, name); pod != nil {
		return []*model.Workload{pod}
	}
	for pod := range a.w.Workloads() {
		if pod.Namespace == namespace && strings.HasPrefix(pod.Name, name+"-") {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(a, b *model.Workload) int { return strings.Compare(a.Name, b.Name) })
	return found
}

func (a authorizer) workload(pod *model.Workload, port uint16) policy.Workload {
	out := policy.Workload{
		Namespace: pod.Namespace, Labels: pod.Labels, Gateway: pod.Gateway, Mesh: *a.w.Mesh, HasKeys: a.hasKeys,
	}
	for _, namespace := range slices.Compact([]string{a.w.Mesh.RootNamespace, pod.Namespace}) {
		out.Policies = slices.AppendSeq(out.Policies, a.w.AuthorizationPolicies(namespace))
		out.Tokens = slices.AppendSeq(out.Tokens, a.w.RequestAuthentications(namespace))
	}
	out.MTLS, out.MTLSPolicy = describer{w: a.w}.mtls(pod).Mode(port)
	return out
}

// sameSelected reports whether the same policies are for two workloads of a namespace.
func sameSelected(a, b policy.Workload) bool {
	if a.MTLSPolicy != b.MTLSPolicy || a.Gateway != b.Gateway {
		return false
	}
	for _, p := range a.Policies {
		if a.IsFor(p.Namespace, &p.Selection) != b.IsFor(p.Namespace, &p.Selection) {
			return false
		}
	}
	for _, p := range a.Tokens {
		if a.IsFor(p.Namespace, &p.Selection) != b.IsFor(p.Namespace, &p.Selection) {
			return false
		}
	}
	return true
}

// concerns reports whether an object is one of the policies of a workload.
func (a authorizer) concerns(w policy.Workload, object source.Key) bool {
	for _, p := range w.Policies {
		if p.Key() == object && w.IsFor(p.Namespace, &p.Selection) {
			return true
		}
	}
	for _, p := range w.Tokens {
		if p.Key() == object && w.IsFor(p.Namespace, &p.Selection) {
			return true
		}
	}
	return w.MTLSPolicy != nil && w.MTLSPolicy.Key() == object
}
