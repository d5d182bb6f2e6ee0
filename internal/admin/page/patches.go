package page

import (
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// PatchEffects says what the patches of an object do to the proxies of a replica.
type PatchEffects struct {
	Kind      string        `json:"kind"`
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Patches   []PatchEffect `json:"patches"`
	// Effects are what the object changes, by what proxies have of it, those of most proxies first.
	Effects  []Effect `json:"effects"`
	Problems []string `json:"problems,omitempty"`
}

// Key names the object.
func (e *PatchEffects) Key() source.Key {
	return source.Key{Kind: kinds.Kind(e.Kind), Namespace: e.Namespace, Name: e.Name}
}

// PatchEffect is what a patch matches, by its place in the object.
type PatchEffect struct {
	Patch int `json:"patch"`
	// Target and Operation are those of Istio's API.
	Target    string `json:"target"`
	Operation string `json:"operation"`
	// Selected counts the proxies that it is for, Proxies those that have something that it
	// matches, Resources what that is, and Failed where it is left out.
	Selected  int `json:"selected"`
	Proxies   int `json:"proxies"`
	Resources int `json:"resources"`
	Failed    int `json:"failed"`
}

// Effect is what differs for proxies that have the same.
type Effect struct {
	Proxy   string            `json:"proxy"` // one of them, "name.namespace"
	Proxies int               `json:"proxies"`
	Changes []ChangedResource `json:"changes"`
	// Left is how many more changes there are, which are not shown.
	Left int `json:"left,omitempty"`
}

// ChangedResource is a resource without the object, and with it, as JSON in lines; empty where
// there is none.
type ChangedResource struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Without string `json:"without,omitempty"`
	With    string `json:"with,omitempty"`
}
