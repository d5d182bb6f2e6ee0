package advise

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/mesh/census"
)

// Namespaces are advised to be left out if together they cause at least this share of the events,
// and this many in the window, or have this share of the services.
const (
	minUnusedShare    = 0.1
	minUnusedEvents   = 20
	minUnusedServices = 50
)

// selectors advises to leave out namespaces that serve no proxy.
func (d *diagnosis) selectors() []Finding {
	if !d.Settings.Selects {
		return nil // nothing applies them
	}
	u := d.unused()
	events, services := share(u.events, u.allEvents), share(float64(u.services), float64(len(d.Census.Services)))
	busy := events >= minUnusedShare && u.events >= minUnusedEvents
	large := services >= minUnusedShare && u.services >= minUnusedServices
	if !busy && !large {
		return nil
	}
	found := Finding{
		Summary: fmt.Sprintf("%s cause events or have services, and no proxy runs there or calls them",
			someOf(u.names)),
		Evidence: []Evidence{
			{Metric: "events of these namespaces", Value: events, Threshold: minUnusedShare, Unit: "of all", Off: busy},
			{Metric: "services of these namespaces", Value: services, Threshold: minUnusedShare, Unit: "of all",
				Off: large},
		},
		Effects: u.effects(d),
		Remedy: Remedy{ExcludeNamespaces: u.names, Automatic: true,
			Text: "also put meshConfig.discoverySelectors into the values of your installation"},
	}
	if d.Calls.Source == "" {
		found.Remedy.ByHand = "who calls whom is not known, so make sure that no proxy calls these namespaces"
	}
	return []Finding{found}
}

// unused are the namespaces that serve no proxy, beside all.
type unused struct {
	names             []string
	events, allEvents float64
	services          int
	ports, allPorts   int // that all namespaces see
}

func (d *diagnosis) unused() (u unused) {
	for _, n := range d.Census.Namespaces {
		u.allEvents += d.Events[n.Name]
		if d.serves(n) {
			continue
		}
		u.names = append(u.names, n.Name)
		u.events += d.Events[n.Name]
		u.services += n.Services
	}
	for _, svc := range d.Census.Services {
		if svc.ExportTo.All {
			u.allPorts += svc.Ports
			if slices.Contains(u.names, svc.Namespace) {
				u.ports += svc.Ports
			}
		}
	}
	return u
}

// effects are what is left without these namespaces.
func (u *unused) effects(d *diagnosis) []Effect {
	seconds, all := max(d.seconds(), 1), len(d.Census.Services)
	return []Effect{
		{What: "events", Unit: "/s", Before: u.allEvents / seconds, After: (u.allEvents - u.events) / seconds},
		{What: "services", Before: float64(all), After: float64(all - u.services)},
		{What: "clusters that a proxy without a Sidecar has of services", Before: float64(u.allPorts),
			After: float64(u.allPorts - u.ports)},
	}
}

// serves reports whether a namespace is of use to a proxy, as far as is known.
func (d *diagnosis) serves(n census.Namespace) bool {
	if n.Name == d.Census.RootNamespace || n.Configures || n.Sidecar != "" || n.Selecting > 0 {
		return true
	}
	if len(d.Calls.ByNamespace[n.Name]) > 0 || len(d.Proxies) == 0 && n.Workloads+n.Gateways > 0 {
		return true // a proxy has called from there; without proxies any workload may have one
	}
	if slices.ContainsFunc(d.Proxies, func(p Proxy) bool { return p.Namespace == n.Name }) {
		return true
	}
	for i := range d.Census.Services {
		svc := &d.Census.Services[i]
		if svc.Namespace == n.Name && (len(svc.RoutedFrom) > 0 || d.isCalled(svc)) {
			return true
		}
	}
	return false
}

func (d *diagnosis) isCalled(svc *census.Service) bool {
	for _, hosts := range d.Calls.ByNamespace {
		if hosts[svc.Host] > 0 {
			return true
		}
	}
	return false
}
