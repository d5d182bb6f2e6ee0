// Package wire measures what a connected proxy costs where the protocol meets the network, and puts
// it under pressure: xds/serve and xds/fanout with real connections on loopback, next to a server
// of grpc-go that does nothing but send ready-made bytes.
//
// Server and clients are processes of their own (this test's binary in another role), so that what
// is measured of a server is its own. Tests assert counts; times are for benchmarks:
//
//	make bench-wire      measures, into bin/bench-wire.txt
//
// The package has only tests. It may import everything.
package wire
