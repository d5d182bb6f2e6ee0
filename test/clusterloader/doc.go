// Package clusterloader holds a test of the configuration files for ClusterLoader2
// (examples/clusterloader2): that their templates render, that the results are what ClusterLoader2
// reads, and that all files which they name are there.
package clusterloader
