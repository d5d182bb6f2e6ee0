// Package app puts the stages of the pipeline together, for serve and for up alike: one constructor
// per stage, in the order in which data flows.
//
//	source ─► schedule.Loop ─► compile.Compiler ─► fanout.Hub ─► serve.Server ─► Envoy
//	          (convert, state,  (scope, translate)                    │
//	           validate)              ▲                               │
//	                                  └── registrar: the class of ◄───┘
//	                                      each connected proxy
//
// The loop's goroutine runs everything up to the Hub. Streams have their own goroutines. The
// package translates nothing, and its only state is which proxies are connected (registrar). It
// turns the stages' reports into metrics (meters), so that the stages import no metrics.
//
// It may import every stage. Only cli, testkit and tests import it.
package app
