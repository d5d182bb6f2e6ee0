// Package fanout owns the way from a class's new state to the connections of that class: who is connected, the one
// pending push that each connection has or has not, the throttle, the account of each push up to the last ACK, and
// the bytes of responses, encoded once and shared among streams.
//
//	Generation ──► Hub ──► Conn: 0 or 1 pending push ──► pool ──► the stream ──► Frame
//	Record ◄── ledger ◄─── Conn: sent, acknowledged, refused, left
//
// It may import observe, xds/resource and xds/session. It knows nothing of gRPC, of streams or of translation.
package fanout
