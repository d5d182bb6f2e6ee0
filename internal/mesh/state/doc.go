// Package state owns what the mesh is: immutable Snapshots with persistent indexes, the Writer that
// takes them from generation to generation, and the Delta between two of them. A batch of changes
// is applied in one atomic step; a batch that changes nothing makes no generation.
//
//	[]Update ─► Writer.Apply ─► Snapshot N+1, Delta
//
// It may import api/kinds, source and api/model. It knows nothing of when a batch leaves
// (schedule), of proxies and of Envoy.
package state
