// Package bench measures each stage of the pipeline in meshes of 100, 1,000 and 10,000 services:
// what one change costs, and what a whole mesh costs.
//
//	make bench           measures, into bin/bench.txt
//	make bench-compare   compares that with baseline.txt
//	make bench-baseline  measures all anew into baseline.txt and docs/performance.md
//
// Benchmarks are named BenchmarkStage/services=N/change=what. The catalogue (catalogue_test.go)
// lists them as docs/performance.md shows them, with the reason where a cost grows with the mesh.
// Tests keep benchmarks, catalogue, baseline and document in line with each other; CI measures
// nothing.
//
// The package has only tests. It may import everything.
package bench
