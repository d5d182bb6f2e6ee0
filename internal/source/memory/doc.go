// Package memory is the source for tests and benchmarks. Its objects take the same pipeline as
// those of a cluster or a directory. It may import api/kinds and source.
package memory
