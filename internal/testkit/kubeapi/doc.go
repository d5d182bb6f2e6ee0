// Package kubeapi gives tests a real Kubernetes API: etcd, kube-apiserver and
// kube-controller-manager (test/kube, built by `make kube`) as three processes on loopback, with
// RBAC, dual-stack Services, service-account tokens and Istio's kinds.
//
//	api := kubeapi.Start(t, kubeapi.Options{})     // some five seconds; or Shared, for a package
//	api.InstallIstioCRDs(t)
//	client := kubernetes.NewForConfigOrDie(api.Config())
//	namespace := api.Namespace(t, nil)             // one of the test's own
//
// Clients reach the API server through a small proxy of this package. Its port stays when the API
// server goes, and it is what makes the network bad:
//
//	api.Stop(t)                    // the API server is killed; etcd stays
//	api.Restart(t)                 // back on the same port with the same data
//	api.Sever()                    // all connections break, new ones work
//	api.Slow(time.Second)          // all that the API server says takes a second longer
//	api.Compact(t)                 // etcd forgets its history: watches expire at Restart
//	api.Put(t, key, json)          // an object that the API server would refuse, written past it
//
// When a test fails, the ends of the processes' logs are in its output. The processes die with the
// test's process, however that ends. It imports perf/port and nothing else of Lateen, and only
// tests import it.
package kubeapi
