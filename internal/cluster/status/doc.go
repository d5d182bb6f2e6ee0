// Package status owns what Lateen writes into the status of Istio's objects: the condition
// Accepted, with everything that is wrong with the object as it was compiled, and the generation
// that this is about.
//
//	world.Loop ── applied changes ──► Board ──► Writer (the leader's) ══ GET, PATCH …/status ══► API server
//	Ledger ─── problems come and go ──►  (latest value of
//	                                      each object)
//
// The Board is kept by every replica and costs no request. The Writer works while its replica
// leads: it reads once which objects have the condition, and then writes what differs. A status
// that is as it should be is not written again, be it after a restart or by another leader.
//
// Ingresses of the mesh have in their status where its gateways are reached. Ingresses (the type)
// holds which ones these are, and the leader's AddressWriter watches the one Service that says it.
//
// It may import api/kinds, observe and source. Nothing reads a status back: what is written here is
// no input of anything.
package status
