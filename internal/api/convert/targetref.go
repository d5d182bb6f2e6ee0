package convert

import (
	"slices"
	"strings"

	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// targetable is the spec of a policy that says which workloads it is for.
type targetable interface {
	targets
	GetSelector() *typev1beta1.WorkloadSelector
}

// targets are the references of a policy to what it is for.
type targets interface {
	GetTargetRef() *typev1beta1.PolicyTargetReference
	GetTargetRefs() []*typev1beta1.PolicyTargetReference
}

// selection reads which workloads a policy is for. It returns false if that is none that Lateen
// serves: a policy with targetRefs never becomes one for all workloads.
func (r *reader) selection(p path, spec targetable) (model.Selection, bool) {
	return r.selectionBy(p, selectorField{
		"selector", "matchLabels", spec.GetSelector().GetMatchLabels(), spec.GetSelector() != nil,
	}, spec)
}

// selectorField is the selector of a policy: the names of its field and of that of its labels.
type selectorField struct {
	name, labels string
	of           map[string]string
	given        bool
}

// selectionBy is selection for a policy whose selector stands in a field of another name.
func (r *reader) selectionBy(p path, selector selectorField, spec targets) (model.Selection, bool) {
	labels, usable := r.selector(p.dot(selector.name).dot(selector.labels), selector.of)
	out := model.Selection{Selector: labels}
	if spec.GetTargetRef() == nil && len(spec.GetTargetRefs()) == 0 {
		return out, usable
	}
	if selector.given {
		r.fail(
			p.dot(selector.name), nil,
			"stands beside targetRefs; the policy is for the workloads of both, in its namespace",
			"a selector or targetRefs",
		)
	}
	if ref := spec.GetTargetRef(); ref != nil {
		out.Gateways = r.targetGateway(out.Gateways, p.dot("targetRef"), ref)
	}
	for i, ref := range spec.GetTargetRefs() {
		out.Gateways = r.targetGateway(out.Gateways, p.dot("targetRefs").at(i), ref)
	}
	out.Gateways = model.SortedDistinct(out.Gateways)
	return out, len(out.Gateways) > 0 || usable && !labels.IsEmpty()
}

// withoutTarget is what becomes of a reference that leads to no workload.
const withoutTarget = "; here the policy is attached to nothing"

const wantTarget = "a Gateway of the Gateway API in the policy's namespace, or a selector in place of targetRefs"

// targetGateway adds the Gateway that a reference names. Services, ServiceEntries and
// GatewayClasses are for waypoints alone, in Istio too.
func (r *reader) targetGateway(to []string, p path, ref *typev1beta1.PolicyTargetReference) []string {
	group, name := ref.GetGroup(), ref.GetName()
	if group == "core" {
		group = ""
	}
	kind := strings.TrimPrefix(group+"/"+ref.GetKind(), "/")
	switch {
	case name == "":
		r.fail(p.dot("name"), "", "is empty"+withoutTarget, wantTarget)
	case ref.GetNamespace() != "" && ref.GetNamespace() != r.meta.Namespace:
		r.fail(p.dot("namespace"), ref.GetNamespace(), "is another namespace"+withoutTarget, wantTarget)
	case kind == kinds.GatewayAPIGroup+"/Gateway":
		if !isLabel(model.GatewayNameLabel, name) {
			r.fail(p.dot("name"), name, "is no name that workloads have in their labels"+withoutTarget, wantTarget)
			return to
		}
		return append(to, name)
	case slices.Contains(waypointTargets(), kind):
		r.fail(p.dot("kind"), ref.GetKind(), "is for waypoints, which Lateen does not have"+withoutTarget, wantTarget)
	case strings.HasPrefix(kind, kinds.GatewayAPIGroup+"/") && strings.HasSuffix(kind, "Route"):
		r.fail(
			p.dot("kind"), ref.GetKind(), "is a route, to which no policy is attached"+withoutTarget,
			"a Gateway that the route has as a parent, with the hosts and paths of the route in the rules",
		)
	default:
		r.fail(p.dot("kind"), kind, "is no kind that policies are attached to"+withoutTarget, wantTarget)
	}
	return to
}

func waypointTargets() []string {
	return []string{"Service", "networking.istio.io/ServiceEntry", kinds.GatewayAPIGroup + "/GatewayClass"}
}
