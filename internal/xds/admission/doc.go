// Package admission limits what clients may take of the control plane, so that neither a fleet
// which connects at once nor a client that floods delays pushes to the streams that are already
// served. It owns the limits and the waiting; package serve asks at each step of a stream:
//
//	Gate.Listener   accept a connection                    1,000 a second for each CPU
//	Quota           have connections and streams           so many for each client
//	Shares          begin a stream, or wait to             a quarter of all for each client
//	StreamLimiter   begin a stream                         500 a second for each CPU; memory
//	Gate.Queue      read the first request                 16 streams for each CPU
//	Gate.Enter      send the first responses               for each CPU one stream, 2 MiB in flight
//	Semaphore       answer a request that asks for more    one request for each CPU
//	RequestBudget   read the next request                  200 a second for each client
//	SendQueue       send a response                        16 KiB unsent for each client
//
// Whoever waits does so in arrival order. Every wait is bounded in time, by the number of streams,
// or by the client that causes it.
//
// The package imports nothing of Lateen: pushes are known by the interface Pushes, and metrics are
// counted by the caller.
package admission
