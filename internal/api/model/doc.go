// Package model holds the mesh's own types: services, endpoints, workloads, hosts, routes and
// policies. They are plain immutable values without types of Kubernetes or Envoy. Objects refer to
// each other by name, never by pointer. It may import api/compliance, api/kinds and source.
package model
