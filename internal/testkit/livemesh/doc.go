// Package livemesh runs a whole mesh under a test: manifests in a directory of the test's own, the
// pipeline of `lateen up`, and real Envoys, so that a test can send requests as a workload does and
// look at the answers.
//
//	Write, Delete ─► directory ─► source/dir ─► local ─► app.Pipeline ─► Envoys ◄─ Client, Dial
//	Settle ───────── waits until all of it has reached the threads that serve ──┘
//
// Nothing sleeps: Settle knows by a marker file when the directory was read, from the pipeline when
// every proxy has accepted what follows, and by two requests to each proxy when its worker thread
// has it. Containers of the image lateen/sample run the test binary itself, which Main lets play
// the sample server.
//
// It is for tests alone, and may import everything of Lateen but cmd.
package livemesh
