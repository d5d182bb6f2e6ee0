// Package envoymodel is a model of stock Envoy as an xDS client: discovery responses go in,
// requests come out, and it says what /config_dump and /clusters would show. It behaves as
// docs/protocol.md, section 1, says that Envoy does, and it is calibrated: testdata holds scripts
// with what a real Envoy said and had, the model reproduces each, and a live test replays them
// against the Envoy of .tools.
//
//	response ──► mux, delta or state   ──► clusters with their endpoint collections, listeners,
//	             │ of the world             routes with their virtual hosts, filters
//	             │ subscriptions,           │ warming, draining, timeouts
//	request  ◄───┴ ACKs, pauses ────────────┘
//
// It is pure: no goroutine, no clock (time is passed in), no randomness of its own. Where Envoy's
// behaviour is an accident of memory addresses or of timing, Options asks the caller, so that a
// property test can try all of it.
//
// What it does not model yet has room: secrets would be one more kind. It does not abort at an
// invalid member of a collection, as Envoy does: no script has one. It imports xds/typeurl, and
// nothing else of Lateen; only tests import it.
package envoymodel
