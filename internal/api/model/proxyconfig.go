package model

import "iter"

// ProxyConfig says how the proxies of workloads are started. A Pod has it from when it is created:
// a change is for Pods that come later.
type ProxyConfig struct {
	Meta
	// Selector is empty for all workloads of the namespace, or of the mesh in the root namespace.
	Selector Labels
	// Concurrency is the number of worker threads, 0 for one per processor; nil if it is not set.
	Concurrency *int32
	// Environment are variables of the proxy's environment, by name.
	Environment []Variable
	// ImageType is that of the proxy's image, "distroless"; empty where it is not set.
	ImageType string
}

// Variable is a variable of an environment.
type Variable struct{ Name, Value string }

// ProxyConfigs are those in force for a workload, nil where there is none. Each stands over the
// ones before, and the annotation proxy.istio.io/config between Namespace and Workload, as Istio
// documents.
type ProxyConfigs struct{ Mesh, Namespace, Workload *ProxyConfig }

// ProxyConfigsFor returns those in force for a workload. of yields the ProxyConfigs of a namespace
// in the total order: of several for the same workloads the first counts.
func ProxyConfigsFor(
	root, namespace string, labels Labels, of func(namespace string) iter.Seq[*ProxyConfig],
) ProxyConfigs {
	first := func(namespace string, is func(*ProxyConfig) bool) *ProxyConfig {
		for c := range of(namespace) {
			if is(c) {
				return c
			}
		}
		return nil
	}
	wide := func(c *ProxyConfig) bool { return c.Selector.IsEmpty() }
	found := ProxyConfigs{Mesh: first(root, wide)}
	if namespace != root {
		found.Namespace = first(namespace, wide)
	}
	found.Workload = first(namespace, func(c *ProxyConfig) bool {
		return !wide(c) && c.Selector.Selects(labels)
	})
	return found
}
