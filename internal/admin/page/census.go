package page

import "github.com/lateen-mesh/lateen/internal/mesh/census"

// Census is /debug/census: what the advisor reads of a control plane beside its metrics and its
// proxies.
type Census struct {
	census.Census
	// Events are the changes of objects since the control plane started, by namespace.
	Events   map[string]uint64 `json:"events"`
	Settings CensusSettings    `json:"settings"`
}

// CensusSettings are the settings in force that can be advised to change. Times are seconds.
type CensusSettings struct {
	DebounceAfter float64 `json:"debounceAfterSeconds"`
	DebounceEarly float64 `json:"debounceEarlySeconds"`
	DebounceMax   float64 `json:"debounceMaxSeconds"`
	AllClusters   bool    `json:"allClusters,omitempty"`
	// Selects is set if the source applies the discovery selectors.
	Selects bool `json:"selects,omitempty"`
	// InCluster is set if it runs in Kubernetes.
	InCluster bool `json:"inCluster,omitempty"`
}
