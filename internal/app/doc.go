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
// package translates nothing. Its state is which proxies are connected (registrar), what the census
// of proxies last counted, which Secrets each proxy may read, fetched keys, and the certificate
// authority. It turns the stages' reports into metrics (meters), so that the stages import no
// metrics.
//
// It may import every stage. Only cli, testkit and tests import it.
package app
