// Package kinds declares the kinds of objects that Lateen knows of. One table says of each kind that
// is read where it is served, of which Go type it is, which sources read it and how, what its
// objects depend on, and what is written and counted about it. Another one names the kinds that
// exist and are not read. Lists of kinds elsewhere are made from these.
//
//	kinds.All() ──► source/manifest, source/kube, ingest, admission, status, deploy, app, perf
//
// To read another kind, add its constant and a line to table.go, and a line to the table of
// conversions in ingest. How objects are converted (ingest) and trimmed (source/kube) stands there,
// in one table each by kind; tests hold them against this one.
//
// It imports types of Kubernetes and Istio, and nothing of Lateen.
package kinds
