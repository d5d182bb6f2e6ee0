// Package watch owns the injector of a cluster: it follows what the injector is made of.
//
//	ConfigMap istio-sidecar-injector ─┐
//	ConfigMap istio (mesh) ───────────┼─► Watch ─► Injector
//	version of the API server ────────┘
//
// A text that cannot be read changes nothing: the error is logged and counted, and the last
// injector stays. If there is none yet, Pods are refused with the error. A ConfigMap that does not
// exist stands for the defaults.
//
// It may import cluster/inject and observe.
package watch
