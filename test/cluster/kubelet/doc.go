// Package kubelet runs the Pods of a test's API server as local processes, each Pod in a network
// namespace of its own with lateen-agent and a real Envoy to which its connections are redirected,
// and certificates of the control plane's own CA. It is scheduler,
// nodes and kubelets in one:
//
//	API server ──► Pod without a node ──► a node that is up (Binding)
//	           ──► Pod on a node ──► worker: namespace, processes, Envoy; probes ──► status
//	           ──► Pod to be deleted ──► preStop, SIGTERM, SIGKILL ──► the object goes
//
// Containers of the image lateen/sample play the sample program, those of Options.Programs another.
// They see the host's files; arguments and variables that name files of volumes (Secrets and
// ConfigMaps) lead to where these are. A Pod gets a sidecar unless its
// label or annotation sidecar.istio.io/inject is "false"; with the annotation
// inject.istio.io/templates: gateway, the Envoy is all that it runs. A container istio-proxy of the
// Pod's own only adds variables to its proxy. A sidecar that the injection has made is run as the
// Pod says: the rules of istio-init, arguments, variables, and of its files those that it mounts.
// No such Pod is ready before its Envoy is. Of a Pod's probes only readiness counts: HTTP and TCP,
// from the node. What ends is started again.
//
// Only tests import it.
package kubelet
