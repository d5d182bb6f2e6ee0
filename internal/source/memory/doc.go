// Package memory is the source for tests and benchmarks: what it is given goes through the same pipeline as
// objects of a cluster or a directory. It may import source.
package memory
