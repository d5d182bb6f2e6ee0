// Package leanproxy is a proxy without a data path: one connection, one delta ADS stream, and of
// what it is sent only names, versions and times are kept. It says of itself what Istio's agent
// says for an Envoy, asks for clusters, endpoints, listeners, routes and, if these say so, virtual
// hosts in Envoy's order, and acknowledges everything. Thousands fit into a test process; that a
// configuration works is not its business (internal/testkit/livemesh).
//
//	proxy := leanproxy.Start(t, leanproxy.Options{
//		Server: "127.0.0.1:15010",
//		Node:   leanproxy.Sidecar("web-0", "shop", "10.1.0.1", labels),
//	})
//	proxy.Await(t, "the cluster", func(s *leanproxy.State) bool {
//		return s.Has(leanproxy.Cluster, "outbound|80||web.shop.svc.cluster.local")
//	})
//
// Every name that is, and every response that was received, is in State; Bytes is what came over
// the connection. A stream that breaks is opened anew, with the versions that the proxy has, as
// Envoy does.
//
// It imports xds/typeurl, and nothing else of Lateen; only tests import it.
package leanproxy
