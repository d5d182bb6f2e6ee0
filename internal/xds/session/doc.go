// Package session owns the xDS protocol of one stream, delta and state of the world, as a state
// machine. Requests, new States and ticks go in; responses to send come out. It may import
// xds/resource. It knows no goroutine, socket or clock (time is an argument), and nothing of
// Istio's API.
//
//	Request ──► subscription (which names)          ┐
//	            ACK, NACK ──► holdings, quarantine  ├─► advance ──► []Response, in the order of order.go
//	Update  ──► the class's newest State            │
//	Tick    ──► holds that have lasted long enough  ┘
//
// Nothing is queued. Every event ends in advance, which compares what the client holds with what it
// should hold, type by type. It sends what may go now and leaves the rest as a difference. So the
// newest State always wins, and a step that is overtaken while it is held back is never sent.
//
// What a client holds is a Set plus exceptions, and so is what it subscribes to. Both have no
// exceptions once the client is where its class is. So a settled session costs the same whatever
// the size of the mesh.
//
// Words that Envoy does not have:
//
//   - quarantine: the versions of resources that this client refused. They are not sent to it again
//     (nack.go).
//   - withheld: what refers to something in quarantine, and is not sent for that reason
//     (withhold.go).
//   - offer: endpoints that are sent with their new cluster, before the client subscribes to them.
//   - probe: an empty response whose answer tells that the client has said all that it had to say
//     (order.go).
//   - head, members: a cluster's assignment and its endpoints, where these are resources of their
//     own (LEDS, leds.go).
//   - seal: a head whose version says which members there are. A client that reports it on its next
//     stream has these members and goes on from there. An open head says nothing of members.
package session
