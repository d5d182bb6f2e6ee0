// Package agents gives the proxies of a local mesh what an agent gives them in a cluster: a
// certificate of the mesh, over SDS on a Unix socket that only this user may open. The certificate
// authority is made when the mesh starts and ends with it.
//
//	Authority (one a mesh) ◄── TLS, CSR, the Pod's token ── Agent (one a proxy) ─► sds-grpc of Envoy
//
// An Agent has a key, a token, a connection and a socket of its own, and runs the agent's code. It
// is no process: lateen-agent takes ports of the whole machine and starts Envoy itself, which is
// the kubelet's part here.
//
// It may import trust/ca, observe and the parts of the agent.
package agents
