// Package dns is the DNS proxy of the agent: it answers what the control plane's name table has,
// and asks the resolvers of the Pod for everything else.
//
//	control plane ── NameTable ──► Table ◄─ lookup ── Server ◄── UDP, TCP: 15053 ◄── application
//	                                                    └── forwarder ──► resolvers of resolv.conf
//
// What a name stands for, in the order in which it is looked for (lookup.go): a name of the table,
// a short form of a Kubernetes name, either of them with the first search domain of resolv.conf
// behind it, a wildcard. The forms are not in the table. They are made from the question, so that
// the table takes one entry for a name.
//
// It may import agent/metrics and xds/nametable.
package dns
