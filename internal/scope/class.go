package scope

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/world"
)

// ProxyType is the role of a proxy, the first part of its node id.
type ProxyType uint8

const (
	// Sidecar runs beside one workload.
	Sidecar ProxyType = iota
	// Router is a gateway.
	Router
)

// Settings are the fields of a proxy's metadata that translation reads, normalised.
type Settings struct {
	HTTPProxyPort uint16
	HTTP10        bool
}

// Proxy is what is known of one proxy, from its Pod record where there is one, else from its node metadata.
type Proxy struct {
	Type      ProxyType
	Namespace string
	Name      string // of the workload
	Labels    model.Labels
	Settings  Settings
}

// Class is what tells proxies apart that should get different config. It is comparable, and made of match results, not of
// label values, so that labels which nothing selects by split no class.
type Class struct {
	Type      ProxyType
	Namespace string
	Settings  Settings
	// Selectors are those of all selectors in the world that match the proxies.
	Selectors *model.List[model.Labels]
	// Targets are the service ports that the workload serves, by the total order of the services.
	Targets *model.List[Target]
}

// Target is one port of a workload as a service sees it.
type Target struct {
	Owner    source.Key
	Port     uint16 // of the workload
	Service  uint16 // of the service
	Host     model.Host
	Protocol model.Protocol
}

// Classifier makes classes; it interns their lists, so that equal classes are equal values. It is used by one goroutine.
type Classifier struct {
	selectors *model.Interner[model.Labels]
	targets   *model.Interner[Target]
}

// NewClassifier makes a classifier.
func NewClassifier() *Classifier {
	return &Classifier{selectors: model.NewInterner[model.Labels](), targets: model.NewInterner[Target]()}
}

// Classify finds the class of a proxy in a world.
func (c *Classifier) Classify(w *world.World, p Proxy) Class {
	return Class{
		Type: p.Type, Namespace: p.Namespace, Settings: p.Settings,
		Selectors: c.selectors.List(matching(w, p.Labels)),
		Targets:   c.targets.List(targets(w, p)),
	}
}

func matching(w *world.World, labels model.Labels) []model.Labels {
	var found []model.Labels
	for s := range w.SelectorsOf(labels) {
		if len(found) == 0 || found[len(found)-1] != s {
			found = append(found, s)
		}
	}
	return found
}

func targets(w *world.World, p Proxy) []Target {
	var found []Target
	workload := w.Workload(p.Namespace, p.Name)
	for _, s := range serving(w, p) {
		for _, port := range s.Ports {
			t := Target{Owner: s.Key(), Port: port.Target, Service: port.Port, Host: s.Host, Protocol: port.Protocol}
			if t.Port == 0 && workload != nil {
				t.Port = workload.PortNamed(port.TargetName)
			}
			if t.Port != 0 && t.Protocol != model.UDP {
				found = append(found, t)
			}
		}
	}
	return found
}

// serving are the services that a workload serves, in the total order.
func serving(w *world.World, p Proxy) []*model.Service {
	found := slices.Collect(w.ServicesSelecting(p.Namespace, p.Labels))
	slices.SortFunc(found, func(a, b *model.Service) int {
		return cmp.Or(a.Compare(&b.Meta), cmp.Compare(a.Host, b.Host))
	})
	return found
}

// Selected tells whether a selector of the world matches the proxies of the class; the empty one matches all.
func (c *Class) Selected(selector model.Labels) bool {
	if selector.IsEmpty() {
		return true
	}
	for s := range c.Selectors.All() {
		if s == selector {
			return true
		}
	}
	return false
}

// Moves tells whether a delta may put a proxy into another class.
func Moves(d *world.Delta, p Proxy) bool {
	for _, w := range d.Workloads {
		if either(w.Old, w.New).Namespace == p.Namespace && either(w.Old, w.New).Name == p.Name {
			return true
		}
	}
	for _, s := range d.Services {
		for _, v := range []*model.Service{s.Old, s.New} {
			if v != nil && v.Namespace == p.Namespace && !v.Selector.IsEmpty() && v.Selector.Selects(p.Labels) {
				return true
			}
		}
	}
	for _, l := range changedSelectors(d) {
		if l.Selects(p.Labels) {
			return true
		}
	}
	return false
}

// ChangesSelectors tells whether a delta changes selectors of policies, which may be for any workload.
func ChangesSelectors(d *world.Delta) bool { return len(changedSelectors(d)) > 0 }

func changedSelectors(d *world.Delta) []model.Labels {
	var found []model.Labels
	for _, p := range d.VirtualServices {
		for _, v := range []*model.VirtualService{p.Old, p.New} {
			if v != nil {
				found = append(found, world.SourceSelectors(v)...)
			}
		}
	}
	for _, p := range d.DestinationRules {
		found = append(found, selectorOf(p.Old), selectorOf(p.New))
	}
	for _, p := range d.Gateways {
		if p.Old != nil {
			found = append(found, p.Old.Selector)
		}
		if p.New != nil {
			found = append(found, p.New.Selector)
		}
	}
	for _, p := range d.Sidecars {
		if p.Old != nil {
			found = append(found, p.Old.Selector)
		}
		if p.New != nil {
			found = append(found, p.New.Selector)
		}
	}
	for _, p := range d.Guards {
		if p.Old != nil {
			found = append(found, p.Old.Selector)
		}
		if p.New != nil {
			found = append(found, p.New.Selector)
		}
	}
	return slices.DeleteFunc(found, model.Labels.IsEmpty)
}

func selectorOf(r *model.DestinationRule) model.Labels {
	if r == nil {
		return model.Labels{}
	}
	return r.Selector
}

func either[T any](old, now *T) *T {
	if now != nil {
		return now
	}
	return old
}
