package validate

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// secrets is the aspect of the Secrets that a Gateway names.
const secrets = "secrets"

// ways are where the workloads of Gateways with credentials run, by what selects them. What a
// Gateway lacks there is the same on every replica, whichever proxies are connected to it. One of
// which the selector is empty is for all gateways of the mesh, and which workloads these are only
// they know (compile).
type ways map[model.Labels]*way

// way is one selector.
type way struct {
	gateways   map[string]bool // "namespace/name" of those with credentials
	namespaces map[string]int  // how many workloads it selects in each
}

// checkCredentials says which Secrets are missing or bad where a Gateway's workloads run. Its cost
// follows the delta, but for a Gateway with a selector that none had before: that looks at all
// workloads.
func (c *Checker) checkCredentials(w *state.Snapshot, d *state.Delta) {
	dirty := map[string]bool{}
	for _, p := range d.Workloads {
		c.ways.move(w, p, dirty)
	}
	for _, p := range d.Gateways {
		if p.New != nil { // before the old one is forgotten, and with it what was counted for both
			c.ways.learn(w, p.New)
			dirty[nameOf(p.New)] = true
		} else {
			c.store.setRelation(secretsOf(p.Old), nil)
		}
		stays := p.Old != nil && p.New != nil && ofWay(p.New) && p.Old.Selector == p.New.Selector
		if p.Old != nil && !stays {
			c.ways.forget(p.Old)
		}
	}
	for _, p := range d.Credentials {
		for _, name := range model.CredentialsOf(p.Either().Name) {
			for g := range w.GatewaysWith(name) {
				dirty[nameOf(g)] = true
			}
		}
	}
	for name := range dirty {
		if g := w.Gateway(name); g != nil {
			c.store.setRelation(secretsOf(g), c.ways.check(w, g))
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

// move counts a workload that came, went or changed its labels, and notes the Gateways to which
// that makes a difference.
func (ws ways) move(w *state.Snapshot, p state.Pair[model.Workload], dirty map[string]bool) {
	if len(ws) == 0 || p.Old != nil && p.New != nil && p.Old.Labels == p.New.Labels {
		return
	}
	for sign, workload := range map[int]*model.Workload{-1: p.Old, 1: p.New} {
		if workload == nil {
			continue
		}
		counted := map[*way]bool{}
		for selector := range w.SelectorsOf(workload.Labels) {
			if at := ws[selector]; at != nil && !counted[at] {
				counted[at] = true
				at.count(workload.Namespace, sign)
				maps.Copy(dirty, at.gateways)
			}
		}
	}
}

func (w *way) count(namespace string, sign int) {
	if w.namespaces[namespace] += sign; w.namespaces[namespace] == 0 {
		delete(w.namespaces, namespace)
	}
}

// ofWay tells whether a Gateway is counted.
func ofWay(g *model.Gateway) bool { return !g.Selector.IsEmpty() && len(g.Credentials()) > 0 }

func (ws ways) learn(w *state.Snapshot, g *model.Gateway) {
	if !ofWay(g) {
		return
	}
	at := ws[g.Selector]
	if at == nil {
		at = &way{gateways: map[string]bool{}, namespaces: map[string]int{}}
		ws[g.Selector] = at
		for workload := range w.Workloads() {
			if g.Selector.Selects(workload.Labels) {
				at.count(workload.Namespace, 1)
			}
		}
	}
	at.gateways[nameOf(g)] = true
}

func (ws ways) forget(g *model.Gateway) {
	if at := ws[g.Selector]; at != nil {
		if delete(at.gateways, nameOf(g)); len(at.gateways) == 0 {
			delete(ws, g.Selector)
		}
	}
}

// check looks at all that the servers of a Gateway name, in each namespace with workloads of it.
func (ws ways) check(w *state.Snapshot, g *model.Gateway) []source.Problem {
	at := ws[g.Selector]
	if at == nil {
		return nil
	}
	var problems []source.Problem
	for i := range g.Servers {
		if g.Servers[i].Broken != "" {
			continue
		}
		for _, namespace := range slices.Sorted(maps.Keys(at.namespaces)) {
			if p, wrong := w.LackOf(g, i, namespace); wrong {
				problems = append(problems, p)
			}
		}
	}
	return problems
}
