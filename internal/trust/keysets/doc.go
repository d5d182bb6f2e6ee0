// Package keysets fetches the public keys of token issuers (JWKS), for the whole mesh:
// each address once, however many policies name it.
//
//	mesh ── Demand: which sets are wanted, what is known of them ──► Keeper ──► Fetcher ──► issuer
//	 ▲                                                                 │
//	 └─── ConfigMap ◄── deliver: all entries, whenever one changes ◄───┘
//
// What is fetched is an input of the mesh like any other object, so that all replicas have the same
// and keep it when they restart. In a cluster the leader fetches and writes the ConfigMap.
//
// It may import api/jwks and observe.
package keysets
