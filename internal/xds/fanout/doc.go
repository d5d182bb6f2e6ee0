// Package fanout delivers a class's new state to the connections of that class. It owns who is
// connected, the one pending push that each connection may have, the throttle, the record of each
// push up to its last ACK, and the bytes of responses, encoded once and shared among streams.
//
//	Generation ──► Hub ──► Conn: 0 or 1 pending push ──► pool ──► the stream ──► Frame
//	Record ◄── tracker ◄── Conn: sent, acknowledged, refused, left
//
// It may import observe, xds/resource and xds/session. It knows nothing of gRPC, of streams or of
// translation.
package fanout
