// Package endpoint owns the translation of endpoints: one to an LbEndpoint, and the heads of the
// lists that they stand in. Its functions are pure, and equal inputs have equal bytes in any
// process.
//
//	Input           ──► Endpoint   (a member of the list; the gate that no bad address passes)
//	GroupInput      ──► Group      (LocalityLbEndpoints without its endpoints)
//	AssignmentInput ──► Assignment (ClusterLoadAssignment without its groups)
//
// Members and heads are encoded apart and put together by xds/resource, so that one endpoint costs
// one endpoint.
//
// It may import api/model and translate/pb.
package endpoint
