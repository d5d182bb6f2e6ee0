// Package source owns the vocabulary between the outside world and the pipeline: a Change is one object
// that appeared, changed or went away, and a Problem is one thing that a user has to mend.
//
//	directory, informers, tests ──► Event{Changes, Reports} ──► ingest
//
// Its sub-packages are the sources themselves (dir, memory, later kube). It imports api/kinds
// and nothing else of Lateen, and it knows nothing of Envoy.
package source
