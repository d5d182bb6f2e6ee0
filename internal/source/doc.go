// Package source holds the vocabulary between the outside world and the pipeline. A Change is one
// object that appeared, changed or went away. A Problem is one mistake that a user has to fix.
//
//	directory, API server, tests ──► Event{Changes, Moved, Reports} ──► api/convert
//
// Its sub-packages are the sources themselves: kube, dir and memory. It imports api/kinds and
// nothing else of Lateen, and it knows nothing of Envoy.
package source
