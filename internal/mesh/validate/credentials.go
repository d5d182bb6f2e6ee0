package validate

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// secrets is the aspect of the Secrets that a Gateway names.
const secrets = "secrets"

// placements are where the workloads of Gateways run, by selector. What a Gateway lacks there is
// the same on every replica, whichever proxies are connected. A Gateway without a selector is not
// in it: it is for all gateways of the mesh, which only compile knows.
type placements map[model.Labels]*placement

// placement is one selector.
type placement struct {
	gateways   map[string]bool // "namespace/name"
	namespaces map[string]int  // how many workloads it selects in each
}

func (ps placements) clone() placements {
	c := placements{}
	for selector, at := range ps {
		c[selector] = &placement{gateways: maps.Clone(at.gateways), namespaces: maps.Clone(at.namespaces)}
	}
	return c
}

// checkCredentials reports which Secrets are missing or bad where a Gateway's workloads run. The
// cost follows the delta, except for a Gateway with a new selector: that reads all workloads.
func (c *Checker) checkCredentials(snap *state.Snapshot, d *state.Delta) {
	dirty := map[string]bool{}
	for _, p := range d.Workloads {
		c.placements.move(snap, p, dirty)
	}
	for _, p := range d.Gateways {
		if p.New != nil { // before the old one is forgotten, and with it what was counted for both
			c.placements.add(snap, p.New)
			dirty[nameOf(p.New)] = true
		} else {
			c.store.setRelation(secretsOf(p.Old), nil)
		}
		stays := p.Old != nil && p.New != nil && isTracked(p.New) && p.Old.Selector == p.New.Selector
		if p.Old != nil && !stays {
			c.placements.remove(p.Old)
		}
	}
	for _, p := range d.Credentials {
		for _, name := range model.CredentialsOf(p.Either().Name) {
			for g := range snap.GatewaysWith(name) {
				dirty[nameOf(g)] = true
			}
		}
	}
	for name := range dirty {
		if g := snap.Gateway(name); g != nil {
			c.store.setRelation(secretsOf(g), append(c.placements.check(snap, g), c.unserved(g)...))
		}
	}
}

func nameOf(g *model.Gateway) string { return g.Namespace + "/" + g.Name }

// secretsOf names what is said of a Gateway's Secrets: of several that stand for one Ingress each
// has its own say.
func secretsOf(g *model.Gateway) relation {
	if g.Owner != "" {
		return relation{g.Key(), secrets + " " + g.Name}
	}
	return relation{g.Key(), secrets}
}

// move counts a workload that came, went or changed its labels, and notes the Gateways that this
// affects.
func (ps placements) move(snap *state.Snapshot, p state.Pair[model.Workload], dirty map[string]bool) {
	if len(ps) == 0 || p.Old != nil && p.New != nil && p.Old.Labels == p.New.Labels {
		return
	}
	for sign, workload := range map[int]*model.Workload{-1: p.Old, 1: p.New} {
		if workload == nil {
			continue
		}
		counted := map[*placement]bool{}
		for selector := range snap.SelectorsOf(workload.Labels) {
			if at := ps[selector]; at != nil && !counted[at] {
				counted[at] = true
				at.count(workload.Namespace, sign)
				maps.Copy(dirty, at.gateways)
			}
		}
	}
}

func (w *placement) count(namespace string, sign int) {
	if w.namespaces[namespace] += sign; w.namespaces[namespace] == 0 {
		delete(w.namespaces, namespace)
	}
}

// isTracked reports whether a Gateway is in placements. The Secrets of one of the Gateway API are a
// part of its status.
func isTracked(g *model.Gateway) bool {
	return !g.Selector.IsEmpty() && g.Kind != kinds.KubernetesGateway
}

func (ps placements) add(snap *state.Snapshot, g *model.Gateway) {
	if !isTracked(g) {
		return
	}
	at := ps[g.Selector]
	if at == nil {
		at = &placement{gateways: map[string]bool{}, namespaces: map[string]int{}}
		ps[g.Selector] = at
		for workload := range snap.Workloads() {
			if g.Selector.Selects(workload.Labels) {
				at.count(workload.Namespace, 1)
			}
		}
	}
	at.gateways[nameOf(g)] = true
}

func (ps placements) remove(g *model.Gateway) {
	if at := ps[g.Selector]; at != nil {
		if delete(at.gateways, nameOf(g)); len(at.gateways) == 0 {
			delete(ps, g.Selector)
		}
	}
}

// unserved reports a Gateway that selects no Pod. An Ingress is served by what its class names.
func (c *Checker) unserved(g *model.Gateway) []source.Problem {
	at := c.placements[g.Selector]
	if !c.Pods || at == nil || g.Owner != "" {
		return nil
	}
	if scoped := c.OwnGateways && g.Kind == kinds.Gateway; scoped && len(at.namespaces) > 0 {
		if at.namespaces[g.Namespace] > 0 {
			return nil
		}
		return []source.Problem{{
			Severity: source.Warning, Path: "spec.selector", Value: g.Selector.String(),
			Message: "selects Pods of other namespaces alone, so that nobody serves this Gateway " +
				"(PILOT_SCOPE_GATEWAY_TO_NAMESPACE)",
			Want: "the labels of a gateway's Pods in the namespace " + g.Namespace,
		}}
	}
	if len(at.namespaces) > 0 {
		return nil
	}
	return []source.Problem{{
		Severity: source.Warning, Path: "spec.selector", Value: g.Selector.String(),
		Message: "selects no Pod, so that nobody serves this Gateway",
		Want:    "the labels of the Pods of a gateway",
	}}
}

// check looks at all that the servers of a Gateway name, in each namespace with workloads of it.
func (ps placements) check(snap *state.Snapshot, g *model.Gateway) []source.Problem {
	at := ps[g.Selector]
	if at == nil {
		return nil
	}
	var problems []source.Problem
	for i := range g.Servers {
		if g.Servers[i].Broken != "" {
			continue
		}
		for _, namespace := range slices.Sorted(maps.Keys(at.namespaces)) {
			if p, wrong := snap.SecretProblem(g, i, namespace); wrong {
				problems = append(problems, p)
			}
		}
	}
	return problems
}
