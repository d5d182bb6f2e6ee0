package convert

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"
	networkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/envoyfilter"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// envoyFilter converts an EnvoyFilter. A patch with a mistake is left out.
func (r *reader) envoyFilter(in *networkingv1alpha3.EnvoyFilter) []Object {
	spec := &in.Spec
	p := path("spec")
	out := &model.EnvoyFilter{Meta: r.meta, Priority: spec.GetPriority()}
	selection, usable := r.selectionBy(
		p, selectorField{
			"workloadSelector", "labels", spec.GetWorkloadSelector().GetLabels(), spec.GetWorkloadSelector() != nil,
		}, filterTargets{spec},
	)
	out.Selection, out.Calls = selection, r.callsOf(spec)
	patches, problems := envoyfilter.Read(spec, r.annotations[kinds.ProtectsAnnotation] == "true")
	for _, problem := range problems {
		problem.Object, problem.Origin = r.object, r.origin
		r.problems = append(r.problems, problem)
	}
	for _, patch := range patches {
		out.Patches = append(out.Patches, r.pools.patches.Canonical(patch))
	}
	r.reportUnused(p, spec.ProtoReflect())
	if !usable || len(out.Patches) == 0 {
		return nil
	}
	return []Object{out}
}

// callsOf returns the hosts that an EnvoyFilter names, in its values or by Istio's annotation. The
// annotation may name a service's namespace too ("namespace/host"); the host alone counts.
func (r *reader) callsOf(spec *networking.EnvoyFilter) []model.Host {
	calls := envoyfilter.Calls(spec)
	for _, name := range listed(r.annotations[kinds.ReferencedAnnotation]) {
		_, host, qualified := strings.Cut(name, "/")
		if !qualified {
			host = name
		}
		calls = append(calls, model.Host(host))
	}
	slices.Sort(calls)
	return slices.Compact(calls)
}

// filterTargets are the references of an EnvoyFilter. It has no single one.
type filterTargets struct{ *networking.EnvoyFilter }

func (filterTargets) GetTargetRef() *typev1beta1.PolicyTargetReference { return nil }
