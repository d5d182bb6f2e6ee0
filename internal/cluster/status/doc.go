// Package status owns what Lateen writes into the status of Istio's objects: the condition Accepted
// with all problems of the object as it was compiled, and the generation that was compiled.
//
//	schedule.Loop ── applied changes ─────────► Tracker ──► Writer (the leader's) ══► API server
//	validate.ProblemStore ── problems ────────► (latest value             GET, PATCH …/status
//	                                            per object)
//
// Every replica keeps a Tracker, which costs no request. The Writer works while its replica leads.
// It lists once which objects have the condition, and then writes where it differs. A status that
// is right is not written again, not even after a restart or by another leader. Objects without
// problems that lack the condition when a term begins get it one by one, so that users can wait for
// it and a first start is no storm of writes.
//
// The status of the mesh's Ingresses has the addresses of its gateways. Ingresses (the type) holds
// which ones belong to the mesh. The leader's AddressWriter watches the one Service with the
// addresses.
//
// The statuses of the Gateway API are a result of the state, as GatewayAPIStatus. Attachments holds
// the latest one of each object, and the leader's AttachmentWriter writes it.
//
// The package may import api/kinds, api/model, observe and source. Nothing reads a status back:
// what is written here is no input of anything.
package status
