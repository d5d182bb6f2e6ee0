// Package cluster tests the control plane with traffic: a real API server (testkit/kubeapi), Pods
// that are network namespaces with real Envoys to which their connections are redirected (podnet,
// kubelet), a DNS (names), and the pipeline of `lateen serve`, which the Envoys reach with tokens
// of their service accounts. Nothing of it can reach beyond the machine.
//
// It needs root, Linux and the binaries of Kubernetes (make kube) and Envoy; without them its tests
// are skipped.
package cluster
