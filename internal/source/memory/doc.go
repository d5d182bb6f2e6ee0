// Package memory is the source for tests and benchmarks: what it is given goes through the same pipeline as
// objects of a cluster or a directory. It may import api/kinds and source.
package memory
