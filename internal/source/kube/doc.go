// Package kube is the source that reads a Kubernetes API server: it lists and watches what Lateen uses, trims it, and
// delivers what differs from what was delivered before.
//
//	API server ══ one watch per resource and scope ══► watcher ──► prints ──► source.Event
//	                                                     ▲        (fingerprint of what was delivered)
//	   namespaces, mesh configuration ──► planner ───────┘
//	                                      (which namespaces are in the mesh, who watches them)
//
// # What is kept
//
// Of an object that was delivered the source keeps its name and a fingerprint of what Lateen uses of it: 64 bits, keyed by a
// secret of the process. Objects themselves are kept by nobody here. So an update that touches nothing that is used (status,
// managed fields, heartbeats, annotations of others) ends here, and a list that is read again delivers the difference alone,
// with what was deleted meanwhile.
//
// # Order
//
// Changes of one object are delivered in their order, and an object has one watcher at a time: it is handed over only after the
// last one has ended. Nothing is promised across resources: a Service and its EndpointSlices come by different watches.
//
// A first or a repeated list is one Event per resource and scope. The lists that begin together (those of a namespace that is
// labelled into the mesh, or those of the whole mesh at the start) are one Event together. So are the deletions of a namespace
// that leaves the mesh. Synced comes once, after all first lists.
//
// # What holds the first state back
//
// A resource that may not be read (forbidden), or an API server that does not answer: what is not known is not taken for empty,
// as a mesh without its policies or endpoints would be worse than the last known state. A resource that does not exist (its
// CustomResourceDefinition is not installed) is empty, and looked for again when that appears. Resources that are marked optional
// hold nothing back.
//
// # Queues
//
// There are none: a watcher hands each event to the sink itself. While the sink blocks, it does not read, and HTTP/2's flow
// control holds the API server. A watch that falls too far behind is ended by the server and listed again.
//
// The package may import api/kinds, source and observe.
package kube
