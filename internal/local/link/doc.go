// Package link owns the line between a local mesh and a control plane that is a process of its own:
//
//	local.Runtime ──► Relay ══ socket pair ══► Source ──► app.Pipeline
//	(lateen up)             ◄══ answers, news ══          (lateen control-plane)
//
// It plays the API server: who connects is delivered everything that there is and then what
// changes, in order, so that a control plane that was killed starts again from the same state. Of
// the pods' tokens only hashes cross the line, and nothing is written to the disk. The line is a
// pair of sockets that the child inherits: nobody else can come by it.
//
// The package imports source and local, and nothing else of Lateen.
package link
