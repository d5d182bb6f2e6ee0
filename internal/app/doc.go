// Package app owns how the stages of the pipeline are put together, for serve and for up alike: one
// constructor per stage, in the order in which data flows.
//
//	source ─► schedule.Loop (ingest, state, validate) ─► compile.Compiler (scope, translate) ─► fanout.Hub ─► serve.Server ─► Envoy
//	                                                          ▲                                                   │
//	                                                          └──── registrar: who is there, in which class ◄─────┘
//
// The loop's goroutine runs everything up to the Hub; streams run on their own. The package
// translates nothing and keeps no state but who is connected (registrar). What stages tell becomes
// metrics here (meters), so that they know none.
//
// It may import every stage; nothing but cmd and tests imports it.
package app
