// Package podnet gives pods of a test addresses of their own: each has a network namespace with a
// link to a bridge, which stands in a namespace of the test's own too. Nothing leads out of it, so
// no packet can leave the machine.
//
//	parent namespace: bridge 10.244.0.1 ──┬── pod 10.244.0.2   nftables: inbound ──► 15006,
//	                                      └── pod 10.244.0.3   outbound ──► 15001, but for the
//	                                                           proxy's own (uid 1337)
//
// The namespaces have no names: the kernel takes them away with the last process in them and the
// test's last file that refers to them, however the test ends. Processes die with the test's, so a
// test that crashes leaves nothing behind.
//
// It needs root, imports agent/intercept alone of Lateen, and only tests import it.
package podnet
