package world

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Certificate is the pair that the workloads of a namespace have under the name of a credential. It is nil unless it is Good.
func (w *World) Certificate(namespace, credential string) (*model.KeyPair, model.Holding) {
	c := w.Credential(namespace, credential)
	holds := c.HoldsPair()
	if holds != model.Good {
		return nil, holds
	}
	return c.Pair, holds
}

// Authorities are those that go with a credential: of the Secret that is for them alone, or of its own. They are nil unless Good.
func (w *World) Authorities(namespace, credential string) (*model.Authorities, model.Holding) {
	c := w.Credential(namespace, model.AuthoritiesOf(credential))
	if c == nil {
		c = w.Credential(namespace, credential)
	}
	holds := c.HoldsAuthorities()
	if holds != model.Good {
		return nil, holds
	}
	return c.Authorities, holds
}

// secrets is the aspect of the Secrets that a Gateway names.
const secrets = "secrets"

// ways are where the workloads of Gateways with credentials run, by what selects them. What a Gateway lacks there is the same on
// every replica, whichever proxies are connected to it. One of which the selector is empty is for all gateways of the mesh, and
// which workloads these are only they know (view).
type ways map[model.Labels]*way

// way is one selector.
type way struct {
	gateways   map[string]bool // "namespace/name" of those with credentials
	namespaces map[string]int  // how many workloads it selects in each
}

// checkCredentials says which Secrets are missing or bad where a Gateway's workloads run. Its cost follows the delta, but for a
// Gateway with a selector that none had before: that looks at all workloads.
func (l *Loop) checkCredentials(w *World, d *Delta) {
	dirty := map[string]bool{}
	for _, p := range d.Workloads {
		l.ways.move(w, p, dirty)
	}
	for _, p := range d.Gateways {
		if p.New != nil { // before the old one is forgotten, and with it what was counted for both
			l.ways.learn(w, p.New)
			dirty[nameOf(p.New)] = true
		} else {
			l.o.Ledger.relation(secretsOf(p.Old), nil)
		}
		stays := p.Old != nil && p.New != nil && ofWay(p.New) && p.Old.Selector == p.New.Selector
		if p.Old != nil && !stays {
			l.ways.forget(p.Old)
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
			l.o.Ledger.relation(secretsOf(g), l.ways.check(w, g))
		}
	}
}

func nameOf(g *model.Gateway) string { return g.Namespace + "/" + g.Name }

// secretsOf names what is said of a Gateway's Secrets: of several that stand for one Ingress each has its own say.
func secretsOf(g *model.Gateway) relation {
	if g.Owner != "" {
		return relation{g.Key(), secrets + " " + g.Name}
	}
	return relation{g.Key(), secrets}
}

// move counts a workload that came, went or changed its labels, and notes the Gateways to which that makes a difference.
func (ws ways) move(w *World, p Pair[model.Workload], dirty map[string]bool) {
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

func (ws ways) learn(w *World, g *model.Gateway) {
	if !ofWay(g) {
		return
	}
	at := ws[g.Selector]
	if at == nil {
		at = &way{gateways: map[string]bool{}, namespaces: map[string]int{}}
		ws[g.Selector] = at
		for workload := range w.workloads.from(nil, func(*model.Workload) bool { return true }) {
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
func (ws ways) check(w *World, g *model.Gateway) []source.Problem {
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

// LackOf is what a server of a Gateway lacks in the namespace of a workload: of several Secrets the first.
func (w *World) LackOf(g *model.Gateway, server int, namespace string) (source.Problem, bool) {
	t := g.Servers[server].TLS
	if t == nil {
		return source.Problem{}, false
	}
	for _, name := range t.Credentials {
		if _, holds := w.Certificate(namespace, name); holds != model.Good {
			return lack{g, server, name, namespace, "a certificate and its key"}.problem(holds), true
		}
	}
	if t.CACredential != "" {
		if _, holds := w.Authorities(namespace, t.CACredential); holds != model.Good {
			return lack{g, server, t.CACredential, namespace, "authorities"}.problem(holds), true
		}
	}
	return source.Problem{}, false
}

// lack is a Secret that is not as it should be.
type lack struct {
	gateway                    *model.Gateway
	server                     int
	name, namespace, ofContent string
}

func (k lack) problem(holds model.Holding) source.Problem {
	p := source.Problem{
		Severity: source.Error, Path: fmt.Sprintf("spec.servers[%d].tls", k.server), Value: k.name,
		Message: fmt.Sprintf("there is no Secret of this name with %s in namespace %s, that of the gateway's workload; the server stays closed", k.ofContent, k.namespace),
		Want:    model.WantCredential,
	}
	if k.gateway.Owner != "" {
		p.Path = "spec.tls" // of an Ingress
	}
	if holds == model.Bad {
		p.Message = fmt.Sprintf("the Secret of this name in namespace %s, that of the gateway's workload, cannot be used; proxies keep what it held before, and the server stays closed on those that have none", k.namespace)
	}
	return p
}
