// Package world owns the mesh's state: an immutable World with persistent indexes, and the one Writer that takes it from
// generation to generation. A batch of changes is applied in one atomic step; a batch that changes nothing makes no
// generation.
//
//	source.Event ─► Loop (debounce, ingest) ─► Writer.Apply ─► World N+1, Delta ─► publish
//
// It may import source, model and ingest. It knows nothing of proxies and of Envoy.
package world
