// Package session owns the xDS protocol of one stream, delta and state of the world, as a state machine: in go requests,
// new States and ticks, out come responses to send. It may import xds/resource. It knows no goroutine, socket or clock
// (time is an argument), and nothing of Istio's API.
//
//	Request ──► subscription (which names)          ┐
//	            ACK, NACK ──► holdings, quarantine  ├─► advance ──► []Response, in the order of order.go
//	Update  ──► the class's newest State            │
//	Tick    ──► holds that have lasted long enough  ┘
//
// Nothing is queued. Every event ends in advance, which compares what the client holds with what it should hold, type by
// type, sends what may go now and leaves the rest as a difference. So the newest State always wins, and a held step that
// is overtaken is never sent.
//
// What a client holds is a Set plus exceptions, what it subscribes to likewise; both have no exceptions once the client
// is where its class is, so that a settled session costs the same whatever the size of the mesh.
package session
