// Package nametable owns the message istio.networking.nds.v1.NameTable, in which names and their
// addresses go to the DNS proxy of an agent.
//
//	[]Name ──► Append ──► NameTable ──► Parse ──► []Name
//
// The table is a protobuf map, which is a repeated field: messages with one name each, put
// together, are the message with all of them. So one name is a resource of its own for a client
// that takes names one by one, and a part of the whole table for one that does not.
//
// The control plane and the agent share it. It imports nothing of the product.
package nametable
