// Package state owns what the mesh is: immutable Snapshots with persistent indexes, the Writer that
// takes them from generation to generation, and the Delta between two of them. A batch of changes
// is applied in one atomic step; a batch that changes nothing makes no generation.
//
//	[]Update ─► Writer.Apply ─► Snapshot N+1, Delta
//
// A Writer forks: the fork goes on from the present generation, and neither sees what the other
// applies.
//
// It may import api/kinds, source, api/model and mesh/forkmap. It knows nothing of when a batch
// leaves (schedule), of proxies and of Envoy.
package state
