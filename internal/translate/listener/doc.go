// Package listener owns the translation of what a proxy listens on to Envoy's Listeners. Its
// functions are pure, and equal inputs have equal bytes in any process.
//
//	HTTPInput    ──► HTTP    the workload's HTTP calls: the HTTP proxy port, or a service port; routes over RDS
//	TCPInput     ──► TCP     its other calls: filter chains by SNI and destination
//	InboundInput ──► Inbound calls to the workload, handed on to its process; the route is inline
//	VirtualOutboundInput, VirtualInboundInput ──► VirtualOutbound, VirtualInbound: where intercepted
//	             connections come in
//	GatewayInput ──► Gateway a gateway's port: HTTP with routes over RDS, and TLS, ended or passed through, by SNI
//
// Names, filters and their order, headers and timeouts are those of Istio. Addresses may be
// placeholders for the proxy's own (model.OwnPod, …), which xds/resource fills in when a listener
// is sent.
//
// Every listener drains as Envoy does by default, when it is replaced and when the proxy is told to
// drain: with drain type MODIFY_ONLY a proxy that shuts down would take new requests to the end.
//
// It may import api/cel, api/model, translate/pb and xds/proxystats.
package listener
