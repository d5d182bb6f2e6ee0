// Package local is the kubelet of a laptop: it runs the Deployments, StatefulSets, DaemonSets, Jobs
// and Pods of a source as processes on loopback addresses, each with an Envoy of its own, without
// root, Docker or Kubernetes.
//
//	directory ──► Runtime ──► pipeline           objects pass through; Pods, their names and
//	                 │                           EndpointSlices are added, as a cluster has them
//	                 ├── workers: processes, probes, Envoys (they report to the loop)
//	                 └── balancers: a Service of type LoadBalancer listens on 127.0.0.1
//
// One goroutine, the loop, owns all state: the pods, how far each is, and what was published.
// Planning (roll-outs, endpoints, environments, bootstraps) is pure functions. The package may
// import api/kinds, api/model, api/convert, source, trust/ca, local/agents and xds/proxystats.
//
// # Addresses
//
// Each pod has three addresses that share their last two bytes, so that a person sees which belong
// together:
//
//	127.32.y.z  the pod's address: others call it, its Envoy's inbound listeners bind it (status.podIP, POD_IP)
//	127.64.y.z  the app's address: the container's process must listen here (LATEEN_APP_ADDRESS)
//	127.96.y.z  the outbound address: its Envoy takes the app's own calls here: the HTTP proxy on port 15080,
//	            TCP services on their own ports, and the admin interface on port 15000 (LATEEN_OUTBOUND_ADDRESS)
//
// A pod without a sidecar listens on its pod address itself, so there the app's address is the
// same.
//
// # What differs from a cluster
//
// Images are not pulled: a container runs its command, and the image lateen/sample runs the
// built-in sample server. Init containers, volumes and startup probes are left out, with a warning.
// A roll-out never takes a ready pod away before its successor is ready (maxUnavailable is 0).
//
// # Ends
//
// Each process leads a process group, which ends with it and with the runtime. If the runtime
// itself is killed, the kernel (Linux) kills the processes that it started, but not those that
// these had started in turn.
package local
