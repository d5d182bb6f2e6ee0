// Package kinds declares the kinds of objects. One table has the kinds that Lateen reads. For each
// it holds the API group and versions, the Go type, how sources read it, what its objects depend
// on, and which status and metrics it has. A second table names the kinds that exist and are not
// read. A third one says how an API server is asked for those of Istio's and the Gateway API. All
// lists of kinds elsewhere are made from these.
//
//	kinds.All() ──► source/manifest, source/kube, api/convert, cluster/*, app, perf
//
// To read another kind, add its constant and a line to table.go, and a line to the table of
// conversions in api/convert. How objects are converted (api/convert) and trimmed (source/kube) is
// written there, in one table each by kind. Tests compare them with this one.
//
// It imports types of Kubernetes and Istio, and may import api/ratelimit: Lateen's own kind.
package kinds
