package intercept

import "slices"

// Mark is on what a transparent proxy sends to its application: Envoy's filter
// envoy.filters.listener.original_src sets it, as the control plane says.
const Mark = 1337

// routes is the table of routes that leads marked packets back to loopback, that of Istio.
const routes = 133

// transparent hands to the proxy what comes to the Pod, with the addresses that it has; where the
// proxy does not listen, nothing gets in. What the proxy sends to its application comes from the
// caller's address, over loopback: the connection takes its mark, so that returns finds answers.
func transparent(o Options) []rule {
	all := []rule{
		{in: "lo", protocol: "tcp", marked: packet, do: verdict{marks: connection}},
		{in: "lo"},                     // calls of the Pod to itself are redirected where they go out
		{protocol: "tcp", reply: true}, // to calls of the Pod
	}
	for _, name := range slices.Concat(o.NotInterfaces, o.Virtual) {
		all = append(all, rule{in: name})
	}
	return append(all, toApplication(o, verdict{transparent: o.InboundPort}, verdict{drop: true})...)
}

// returns marks what the application answers to the caller's address, so that it is routed to the
// proxy and not to the caller.
func returns() []rule {
	return []rule{{protocol: "tcp", marked: connection, do: verdict{marks: packet}}}
}
