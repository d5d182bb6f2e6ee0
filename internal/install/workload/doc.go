// Package workload writes what a machine outside of Kubernetes needs to join the mesh, from a
// WorkloadGroup and what the cluster says of the mesh:
//
//	cluster ─► Gather ─► Machine ─► Files: cluster.env, mesh.yaml, root-cert.pem, istio-token, hosts,
//	                                       lateen-agent.service
//
// The first five are istioctl's (x workload entry configure), for the places in which Istio's agent
// and Lateen's look for them.
//
// It may import api/model and install.
package workload
