package convert

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/limits"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/api/ratelimit"
)

// rateLimit converts a RateLimit to what adds its filters to proxies. A limit with a mistake is
// left out.
func (r *reader) rateLimit(in *ratelimit.RateLimit) []Object {
	p, spec := path("spec"), in.DeepCopy().Spec
	o := limits.Object{Namespace: r.meta.Namespace, Name: r.meta.Name, Spec: &spec}
	out := &model.EnvoyFilter{Meta: r.meta}
	usable := r.limitTargets(p, &o, &out.Selection)
	usable = oneOfValues(r, p.dot("mode"), spec.Mode, ratelimit.Enforce, ratelimit.Shadow) && usable
	usable = oneOfValues(
		r, p.dot("responseHeaders"), spec.ResponseHeaders, ratelimit.NoHeaders, ratelimit.DraftVersion03,
	) && usable
	if spec.Local == nil && spec.Global == nil {
		r.fail(p, nil, "limits nothing", "local or global")
	}
	if spec.Local != nil {
		r.localLimits(p.dot("local"), spec.Local)
	}
	if spec.Global != nil {
		if o.Server = r.globalLimits(p.dot("global"), spec.Global); o.Server == "" {
			spec.Global = nil
		} else if len(spec.Global.Descriptors) > 0 {
			out.Calls = []model.Host{o.Server}
		}
	}
	if !usable {
		return nil
	}
	out.Says = limits.Says(o)
	for _, patch := range limits.Patches(o) {
		out.Patches = append(out.Patches, r.pools.patches.Canonical(patch))
	}
	if len(out.Patches) == 0 {
		return nil
	}
	return []Object{out}
}

// withoutLimit is what becomes of a limit with a mistake.
const withoutLimit = "; the limit is left out"

// oneOfValues checks a value that may be empty for the first of some.
func oneOfValues[T ~string](r *reader, p path, value T, all ...T) bool {
	if value == "" || slices.Contains(all, value) {
		return true
	}
	var want []string
	for _, one := range all {
		want = append(want, string(one))
	}
	r.fail(p, value, "is no value of this field; the object is not in force", strings.Join(want, " or "))
	return false
}

// limitTargets reads which proxies and routes an object is for. It returns false for none.
func (r *reader) limitTargets(p path, o *limits.Object, selection *model.Selection) bool {
	spec := o.Spec
	usable := true
	if spec.Selector != nil {
		selection.Selector, usable = r.selector(p.dot("selector.matchLabels"), spec.Selector.MatchLabels)
	}
	if len(spec.TargetRefs) == 0 {
		return usable
	}
	if spec.Selector != nil {
		r.fail(p.dot("selector"), nil, "stands beside targetRefs; the object is not in force",
			"a selector or targetRefs")
		return false
	}
	o.OnGateways = true
	for i, ref := range spec.TargetRefs {
		r.limitTarget(p.dot("targetRefs").at(i), ref, o, selection)
	}
	if len(selection.Gateways) > 0 && len(o.Routes) > 0 {
		r.fail(p.dot("targetRefs"), nil, "name Gateways and routes; the object is not in force",
			"one object for the Gateways and one for the routes")
		return false
	}
	selection.Gateways = model.SortedDistinct(selection.Gateways)
	return len(selection.Gateways) > 0 || len(o.Routes) > 0
}

const wantLimitTarget = "a Gateway, HTTPRoute or GRPCRoute of the Gateway API, or a VirtualService"

// limitTarget adds what one reference names.
func (r *reader) limitTarget(p path, ref ratelimit.TargetRef, o *limits.Object, selection *model.Selection) {
	key := map[string]kinds.Kind{
		kinds.GatewayAPIGroup + "/Gateway":        kinds.KubernetesGateway,
		kinds.GatewayAPIGroup + "/HTTPRoute":      kinds.HTTPRoute,
		kinds.GatewayAPIGroup + "/GRPCRoute":      kinds.GRPCRoute,
		kinds.NetworkingGroup + "/VirtualService": kinds.VirtualService,
	}[ref.Group+"/"+ref.Kind]
	of := r.meta.Key()
	of.Kind, of.Name = key, ref.Name
	switch {
	case key == "":
		r.fail(p.dot("kind"), strings.TrimPrefix(ref.Group+"/"+ref.Kind, "/"),
			"is nothing that requests are limited for"+withoutTarget, wantLimitTarget)
	case !isObjectName(ref.Name):
		r.fail(p.dot("name"), ref.Name, "is no name of an object"+withoutTarget, "the name of a "+ref.Kind)
	case key != kinds.KubernetesGateway:
		o.Routes = append(o.Routes, limits.Route{Owner: model.RoutesOwner(of), Rule: ref.SectionName})
	case ref.SectionName != "":
		r.fail(p.dot("sectionName"), ref.SectionName, "is a part of a Gateway"+withoutTarget,
			"no sectionName, or a route")
	case !isLabel(model.GatewayNameLabel, ref.Name):
		r.fail(p.dot("name"), ref.Name, "is no name that workloads have in their labels"+withoutTarget,
			"the name of a Gateway")
	default:
		selection.Gateways = append(selection.Gateways, ref.Name)
	}
}

// maxValues is for how many values a limit may remember buckets: each takes about 300 bytes of a
// proxy.
const maxValues = 1_000_000

// localLimits leaves out the limits that cannot be kept.
func (r *reader) localLimits(p path, in *ratelimit.Local) {
	if in.MaxValues < 0 || in.MaxValues > maxValues {
		r.fail(p.dot("maxValues"), in.MaxValues, "is out of range; the default is in force",
			fmt.Sprintf("1 to %d", maxValues))
		in.MaxValues = 0
	}
	if len(in.Limits) == 0 {
		r.fail(p.dot("limits"), nil, "is empty", "a limit")
	}
	names := map[string]bool{}
	var kept []ratelimit.LocalLimit
	for i := range in.Limits {
		l, at, start := &in.Limits[i], p.dot("limits").at(i), r.mark()
		r.limitDescriptor(at, &l.Descriptor, names)
		r.limitNumber(at.dot("requests"), l.Requests, 1)
		r.limitNumber(at.dot("burst"), l.Burst, 0)
		if limits.Length(l.Per) == 0 {
			r.fail(at.dot("per"), l.Per, "is no unit"+withoutLimit, "Second, Minute, Hour or Day")
		}
		size := l.Requests
		if l.Burst > 0 {
			size = l.Burst
		}
		if l.Cost > size {
			r.fail(at.dot("cost"), l.Cost, "is more than the limit ever has, so that no request would pass"+
				withoutLimit, fmt.Sprintf("at most %d", size))
		}
		if r.failure(start, at) == "" {
			if l.Name == "" { // its place among those that are written, whatever is left out
				l.Name = fmt.Sprint(i)
			}
			kept = append(kept, *l)
		}
	}
	in.Limits = kept
}

// limitNumber checks a number of requests: Envoy counts to 2^32.
func (r *reader) limitNumber(p path, n, least int64) {
	if n < least || n > math.MaxUint32 {
		r.fail(p, n, "is out of range"+withoutLimit, fmt.Sprintf("%d to %d", max(least, 1), uint32(math.MaxUint32)))
	}
}

// Bounds of how long proxies wait for a server.
const (
	minLimitTimeout = time.Millisecond
	maxLimitTimeout = time.Minute
)

// globalLimits leaves out the descriptors that no server can be asked about. It returns the host of
// the server; "" for none.
func (r *reader) globalLimits(p path, in *ratelimit.Global) model.Host {
	start := r.mark()
	host, _ := r.resolve(p.dot("service.host"), in.Service.Host, false)
	r.port(p.dot("service.port"), int64(in.Service.Port))
	if in.Domain == "" || hasControl(in.Domain) {
		r.fail(p.dot("domain"), in.Domain, "is no domain of a server's configuration", "a text")
	}
	if d := in.Timeout; d != nil && (d.Duration < minLimitTimeout || d.Duration > maxLimitTimeout) {
		r.fail(p.dot("timeout"), d.Duration, "is out of range", "1ms to 1m")
	}
	if r.failure(start, p) != "" {
		return ""
	}
	if len(in.Descriptors) == 0 {
		r.fail(p.dot("descriptors"), nil, "is empty", "a descriptor")
	}
	names := map[string]bool{}
	var kept []ratelimit.Descriptor
	for i := range in.Descriptors {
		d, at, start := &in.Descriptors[i], p.dot("descriptors").at(i), r.mark()
		r.limitDescriptor(at, d, names)
		switch {
		case d.Name == "" && d.Match != nil:
			r.fail(at.dot("name"), "", "is empty beside match: it is what a server is told of that"+withoutLimit,
				"a name")
		case d.Name == "" && len(d.By) == 0:
			r.fail(at, nil, "has neither a name nor by"+withoutLimit, "a name that the server's configuration has")
		}
		if r.failure(start, at) == "" {
			kept = append(kept, *d)
		}
	}
	in.Descriptors = kept
	return host
}
