// Package kube is the source that reads a Kubernetes API server. It lists and watches the objects
// that Lateen uses, trims them, and delivers what differs from what was delivered before.
//
//	API server ══ one watch per resource and scope ══► watcher ──► fingerprints ──► source.Event
//	                                                     ▲         (of what was delivered)
//	   namespaces, mesh configuration, tags ──► planner ─┘
//	                                      (which namespaces are in the mesh, who watches them)
//
// # What is kept
//
// Of a delivered object the source keeps its name and a fingerprint of what Lateen uses of it: 64
// bits, keyed by a secret of the process. It keeps no objects. An update that touches nothing that
// is used (status, managed fields, heartbeats, other annotations) ends here. A list that is read
// again delivers only the difference, deletions included.
//
// # Order
//
// Changes of one object are delivered in their order. An object has one watcher at a time: the next
// one starts after the last has ended. There is no order across resources: a Service and its
// EndpointSlices come from different watches.
//
// A first or repeated list is one Event per resource and scope. The lists of a namespace that is
// labelled into the mesh are one Event together. So are the deletions of a namespace that leaves
// the mesh. At the start each list is delivered as it is read, and so is what changes after it:
// Synced comes once, after all first lists, and the first state includes every event before it.
//
// # What delays Synced
//
// Synced waits for a resource that may not be read (forbidden), and for an API server that does not
// answer. Unknown is not empty: a mesh without its policies or endpoints would be worse than the
// last known state. A resource that does not exist (its CustomResourceDefinition is not installed)
// is empty, and is looked for again when the definition appears. Optional resources delay nothing.
//
// # Revision tags
//
// The label istio.io/rev of an object may name a tag of the revision. Webhooks and Services with
// the label istio.io/tag say which tags there are. When they change, the kinds whose objects may
// name a revision are listed anew, with the names of now: what begins or ceases to belong is
// delivered as one event for each scope, and all else stays.
//
// # Queues
//
// There are none: a watcher hands each event to the sink itself. While the sink blocks, the watcher
// does not read, and HTTP/2's flow control stops the API server. The server ends a watch that falls
// too far behind, and it is listed again.
//
// The package may import api/kinds, source, source/selected and observe.
package kube
