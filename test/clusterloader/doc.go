// Package clusterloader holds tests of the configuration files for ClusterLoader2
// (examples/clusterloader2): that their templates render, that the results are what ClusterLoader2
// reads, that all files which they name are there, and, where the program is, that it runs them
// against an API server.
package clusterloader
