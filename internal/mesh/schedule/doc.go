// Package schedule decides when changes leave, as batches, and takes each batch through the Writer:
// it converts, applies, checks and publishes it.
//
//	source.Event ─► queues ─► reconverter ─► state.Writer ─► validate.Checker ─► Publish
//
// It may import api/kinds, source, api/model, api/convert, mesh/state and mesh/validate. It knows
// nothing of proxies and of Envoy.
package schedule
