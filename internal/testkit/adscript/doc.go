// Package adscript drives one real Envoy by script: it is the xDS server, it sends what the test
// says and nothing else, and it lets the test look at what Envoy asked, at what Envoy holds, and at
// what Envoy serves. Tests of how Envoy behaves are written with it (test/live/envoyfacts), and
// models of Envoy are calibrated with it.
//
//	r := adscript.Start(t, adscript.Options{})                     // delta, unless Options differ
//	r.AwaitOpen(adscript.Clusters)                               // the first request for clusters
//	r.Send(adscript.Push("v1", adscript.EDSCluster("a", "", 0))) // with their types and names
//	r.AwaitSubscribe(adscript.Endpoints, "a")
//	nonce := r.Send(adscript.Push("v1", adscript.Assignment("a", "127.0.0.1:9001")))
//	r.AwaitAck(nonce)                                            // or AwaitNack, AwaitAnswer
//	require.Equal(t, []string{"127.0.0.1:9001"}, r.Hosts("a"))
//
//	r.Send(adscript.Removal(adscript.Endpoints, "a"))
//	r.Settle()                                                   // Envoy has handled all of it
//	require.Contains(t, r.Config().Clusters, "a")                // config_dump, parsed
//
//	first := r.Reconnect()                                       // the next stream has begun
//	r.Until("the host is gone", func() bool { return len(r.Hosts("a")) == 0 })
//	answer := r.Get("listener", "web.test", "/")                 // a request through Envoy
//
// Envoy handles the messages of a stream one after the other in its main thread. So Settle sends a
// resource of a type that nothing else uses (a runtime layer) and waits for its ACK, which Envoy
// never withholds: what was sent before has been handled then, and what Envoy said to it has been
// recorded. What its worker thread does comes a moment later, and what a timer ends comes when it
// ends: for these there is Until. No test sleeps.
//
// When a test fails, the transcript is logged: requests (>), responses (<), streams, and the end of
// Envoy's log.
//
// A Run is used by the one goroutine of its test. It imports realenvoy and xds/typeurl, and nothing
// else of Lateen; only tests import it.
package adscript
