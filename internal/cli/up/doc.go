// Package up owns the command lateen up, which runs a mesh on this machine, and what it starts as
// processes of their own: sample servers, and a separate control plane.
//
//	directory ─► local.Runtime (the kubelet) ─► app.Pipeline ─► Envoys
//	                                    └────► screen
//
// It may import what local and app need, cli/command, cli/process, cli/terminal, and cli/inspect
// for what its screen has in common with that.
package up
