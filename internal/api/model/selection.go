package model

import "slices"

// Selection is the workloads that a policy is for.
type Selection struct {
	// Selector is empty for all workloads of the namespace, or of the mesh in the root namespace.
	Selector Labels
	// Gateways are names of Gateways of the Gateway API in the policy's namespace, sorted, each
	// once. With some, the policy is for their workloads, and in its namespace for those that
	// Selector matches, unless that is empty.
	Gateways []string
}

// IsForAll reports whether a policy is for all workloads of its namespace, or of the mesh.
func (s *Selection) IsForAll() bool { return len(s.Gateways) == 0 && s.Selector.IsEmpty() }

// Selectors returns the selectors of which one has to match, each once. The empty one matches every
// workload.
func (s *Selection) Selectors() []Labels {
	if len(s.Gateways) == 0 {
		return []Labels{s.Selector}
	}
	var all []Labels
	if !s.Selector.IsEmpty() {
		all = append(all, s.Selector)
	}
	for _, name := range s.Gateways {
		for _, of := range GatewaySelectors(name) {
			if of != s.Selector {
				all = append(all, of)
			}
		}
	}
	return all
}

// IsFor reports whether a policy with the selection is for workloads, by which selectors match
// them, and whether they are of the policy's namespace.
func (s *Selection) IsFor(ofNamespace bool, matches func(Labels) bool) bool {
	if len(s.Gateways) == 0 {
		return matches(s.Selector)
	}
	return ofNamespace && slices.ContainsFunc(s.Selectors(), matches)
}

// GatewaySelectors returns the selectors of the workloads of a Gateway of the Gateway API.
func GatewaySelectors(name string) [2]Labels {
	return [2]Labels{
		LabelsOf(map[string]string{GatewayNameLabel: name}), LabelsOf(map[string]string{OldGatewayNameLabel: name}),
	}
}
