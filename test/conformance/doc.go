// Package conformance runs the conformance tests of the Gateway API, as its own module ships them,
// against Lateen in a cluster of processes (test/cluster): a real API server, Pods that are network
// namespaces with real Envoys, and `lateen serve`, which deploys the Gateways.
//
// The suite sends its requests from the namespace of the Pods' bridge. Services of type
// LoadBalancer get the addresses of their Pods. Pods of the suite's mesh have sidecars, and answer
// and call with Istio's echo server; the backends of Gateways have none.
//
// With -core the core tests of each profile are run alone, as CI does. Istio's own samples for the
// Gateway API are tried in such a cluster too.
//
// It is a Go module of its own, so that Lateen needs nothing of what the suite needs. It needs root
// and Linux.
package conformance
