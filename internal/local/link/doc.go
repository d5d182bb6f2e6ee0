// Package link connects a local mesh to a control plane in a process of its own:
//
//	local.Runtime ──► Relay ══ socket pair ══► Source ──► app.Pipeline
//	(lateen up)             ◄══ answers, news ══          (lateen control-plane)
//
// It plays the API server. A control plane that connects gets everything that exists, and then the
// changes in order, so that one that was killed starts again from the same state. Of the pods'
// tokens only hashes are sent, and nothing is written to disk. The child inherits its end of a
// socket pair, so that no other process can connect.
//
// It may import source and local.
package link
