package state

import (
	"fmt"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Pair is an object before and after: Old is nil for a new one, New for one that went away.
type Pair[T any] struct{ Old, New *T }

// Either is the object as it is, or as it was if it went away: what names it is the same.
func (p Pair[T]) Either() *T {
	if p.New != nil {
		return p.New
	}
	return p.Old
}

// Delta is what differs between two generations. Objects that were sent again with equal content
// are not in it.
type Delta struct {
	From, To *Snapshot

	Services               []Pair[model.Service]
	VirtualServices        []Pair[model.VirtualService]
	DestinationRules       []Pair[model.DestinationRule]
	Gateways               []Pair[model.Gateway]
	Sidecars               []Pair[model.Sidecar]
	AuthorizationPolicies  []Pair[model.AuthorizationPolicy]
	PeerAuthentications    []Pair[model.PeerAuthentication]
	RequestAuthentications []Pair[model.RequestAuthentication]
	Telemetries            []Pair[model.Telemetry]
	EnvoyFilters           []Pair[model.EnvoyFilter]
	ProxyConfigs           []Pair[model.ProxyConfig]
	KeySets                []Pair[model.KeySet]
	Credentials            []Pair[model.Credential]
	Workloads              []Pair[model.Workload]
	Nodes                  []Pair[model.Node]
	WorkloadEntries        []Pair[model.WorkloadEntry]
	GatewayAPIStatuses     []Pair[model.GatewayAPIStatus]
	BackendPolicies        []Pair[model.BackendPolicy]
	Delegations            []Pair[model.DelegationStatus]
	Endpoints              []EndpointChange
	Accounts               []AccountsChange
	// AutoAddresses are the hosts that have another address from the mesh's range than before, or
	// did not have or no longer have one, sorted. There are none without a changed Service.
	AutoAddresses []model.Host
	// Mesh reports whether the mesh configuration changed. Everything may depend on it.
	Mesh bool

	// Changed are the source objects behind it, in the order of arrival.
	Changed []source.Key
	// Observed is when the first of the changes reached this process.
	Observed time.Time
}

// EndpointChange are endpoints of one service that appeared, changed or went away.
type EndpointChange struct {
	Host      model.Host
	Namespace string
	Entry     string // the name of the ServiceEntry; empty for a Service of Kubernetes
	From, To  *EndpointSet
	IDs       []EndpointID // sorted
}

// IsEmpty reports whether nothing differs.
func (d *Delta) IsEmpty() bool {
	if d.Mesh || len(d.Endpoints) > 0 || len(d.Accounts) > 0 {
		return false
	}
	for _, t := range tables {
		if !t.isEmpty(d) {
			return false
		}
	}
	return true
}

// ChangedSelectors are the selectors over workloads that objects have lost or got.
func (d *Delta) ChangedSelectors() []model.Labels {
	var found []model.Labels
	for _, t := range tables {
		found = t.changedSelectors(d, found)
	}
	return found
}

// Cause is one line that tells a person what changed.
func (d *Delta) Cause() string {
	switch len(d.Changed) {
	case 0:
		return "nothing"
	case 1:
		return d.Changed[0].String()
	case 2:
		return d.Changed[0].String() + ", " + d.Changed[1].String()
	}
	return fmt.Sprintf("%s and %d more", d.Changed[0], len(d.Changed)-1)
}

// Removes reports whether an endpoint is gone that was there before.
func (c EndpointChange) Removes() bool {
	for _, id := range c.IDs {
		if _, was := c.From.Get(id); !was {
			continue
		}
		if _, is := c.To.Get(id); !is {
			return true
		}
	}
	return false
}
