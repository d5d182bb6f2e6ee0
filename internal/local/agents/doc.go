// Package agents gives the proxies of a local mesh what an agent gives them in a cluster: a
// certificate of the mesh, over SDS on a Unix socket that only this user may open. The certificate
// authority is made when the mesh starts and ends with it.
//
//	Authority (one a mesh) ─► Agent (one a proxy): issues, renews, serves ─► Envoy's cluster sds-grpc
//
// It may import trust/ca and the parts of the agent.
package agents
