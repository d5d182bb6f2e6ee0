// Package cluster owns the translation of a destination and the policies for it to an Envoy
// Cluster. Its functions are pure: what a cluster says is decided by one comparable input struct,
// and equal inputs have equal bytes in any process.
//
//	OutboundInput    ──► Outbound    "outbound|9080|v1|reviews.default.svc.cluster.local"
//	InboundInput     ──► Inbound     "inbound|9080||"
//	PassthroughInput ──► Passthrough "PassthroughCluster", "InboundPassthroughCluster"
//	                     BlackHole   "BlackHoleCluster"
//
// Names, defaults and the reading of a DestinationRule are those of Istio. Where a rule cannot be
// honoured the cluster is there without endpoints, so that requests get 503: never left out (its
// endpoints could not arrive), never in plaintext.
//
// It may import api/kinds, api/model and translate/pb.
package cluster
