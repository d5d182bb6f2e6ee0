// Package model owns the mesh's own types: services, endpoints, workloads, hosts, routes and policies, as plain
// immutable values without a trace of Kubernetes or Envoy. Objects name each other, they never point to each other.
// It may import api/kinds and source.
package model
