package meshgen

import corev1 "k8s.io/api/core/v1"

// Classes is how many classes Proxies are of.
const Classes = 40

// Proxy is one proxy of the mesh, as it says itself.
type Proxy struct {
	Gateway       bool
	Namespace     string
	Pod           string
	Labels        map[string]string
	Address       string
	HTTPProxyPort uint16 // 0 for a gateway
	HTTP10        bool
}

// Proxies is one proxy of each class: of the gateway, of 19 namespaces without a Sidecar, and of
// the 20 with one. They run beside a pod of the namespace's first service of kind Plain; where the
// Sidecar selects workloads, every other one of them is selected.
func Proxies() []Proxy {
	all := []Proxy{proxyAt(gatewayPod())}
	all[0].Gateway, all[0].HTTPProxyPort = true, 0
	for n := range Namespaces {
		if n < 19 || n >= Wide {
			pod := 0
			if n >= Selected {
				pod = n % Pods
			}
			all = append(all, ProxyOf(Number(n, Plain), pod))
		}
	}
	return all
}

// ProxyOf is the proxy of a pod of a service.
func ProxyOf(i, pod int) Proxy { return proxyAt(Pod(i, pod)) }

func proxyAt(pod *corev1.Pod) Proxy {
	return Proxy{
		Namespace:     pod.Namespace,
		Pod:           pod.Name,
		Labels:        pod.Labels,
		Address:       pod.Status.PodIP,
		HTTPProxyPort: 15080,
	}
}
