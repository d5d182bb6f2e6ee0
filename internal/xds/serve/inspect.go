package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// Inspector answers tools that ask about the control plane itself, as istioctl does.
type Inspector interface {
	// Inspect answers a request for names of a type that begins with InspectionType. An error is a
	// gRPC status, and ends the stream.
	Inspect(id Identity, typeURL string, names []string) (Inspection, error)
}

// Inspection is the answer to a tool.
type Inspection struct {
	Resources []InspectedResource
	// ControlPlane identifies the replica and its version; it may be empty.
	ControlPlane string
}

// InspectedResource is one part of an answer. State of the world has no names.
type InspectedResource struct {
	Name string
	Body *anypb.Any
}

// InspectionType is the first part of the URLs of types that an Inspector answers. They are Istio's
// and no Envoy asks for them.
const InspectionType = "istio.io/debug"

func (r *request) isInspection() bool { return strings.HasPrefix(r.TypeURL, InspectionType) }

// inspectionLimit is how long a tool's stream lives at most.
const inspectionLimit = 10 * time.Minute

// inspect serves a stream whose first request is a tool's. Such a stream has no session, and its
// node need not be that of a proxy: the tools send one of a Pod that does not exist. It takes no
// place of a proxy's stream.
//
//go:noinline
func (st *stream) inspect(ctx context.Context) error {
	st.leaveGate()
	if err := st.refuseGone(); err != nil {
		return err
	}
	limit := time.AfterFunc(inspectionLimit, func() { st.cancel(errEnded) })
	defer limit.Stop()
	for {
		r := st.in.request
		if !r.isInspection() {
			return st.refuse(codes.InvalidArgument, fmt.Errorf("the type %.64q is asked for on a stream that began "+
				"with one of %s; want another stream for it", r.TypeURL, InspectionType))
		}
		err := st.answerInspection(ctx, r)
		st.in.done()
		if ctx.Err() != nil {
			return ignoreEnd(err)
		}
		if err != nil {
			return st.refuse(status.Code(err), errors.New(status.Convert(err).Message()))
		}
		st.throttle(ctx)
		if err := st.receive(); err != nil {
			return ignoreEnd(err)
		}
	}
}

// inspectBeside answers a tool that asks through a proxy's stream, as Istio's agent passes such
// requests on. A refusal is an answer: it must not end the stream of the proxy.
func (st *stream) inspectBeside(ctx context.Context) error {
	st.driver.await()
	defer st.stop()
	defer st.in.done()
	r := st.in.request
	err := st.answerInspection(ctx, r)
	if err == nil || ctx.Err() != nil {
		return err
	}
	refusal := &anypb.Any{TypeUrl: InspectionType, Value: []byte(untrusted(status.Convert(err).Message()))}
	return st.sendInspection(r.TypeURL, Inspection{Resources: []InspectedResource{{Body: refusal}}})
}

// answerInspection answers one request, unless it only acknowledges an answer. istioctl sends a
// nonce that it was not given, with its first request too.
func (st *stream) answerInspection(ctx context.Context, r *request) error {
	if r.Nonce != "" && r.Nonce == st.inspected || r.Nack != nil {
		return nil
	}
	names := r.Names
	if st.protocol == session.Delta {
		names = r.Subscribe
	}
	if st.server.options.Inspector == nil {
		return status.Error(codes.Unimplemented, "this control plane answers no tools")
	}
	if err := st.acquireSlot(ctx); err != nil {
		return err
	}
	answer, err := st.server.options.Inspector.Inspect(st.owner.identity, r.TypeURL, names)
	st.releaseSlot()
	if err != nil {
		return err
	}
	st.inspected = fmt.Sprintf("inspection-%d", st.server.ids.Add(1))
	st.log().Info("a tool was answered", "identity", st.owner.identity, "type", untrusted(r.TypeURL),
		"names", untrusted(strings.Join(names, " ")), "resources", len(answer.Resources))
	return st.sendInspection(r.TypeURL, answer)
}

func (st *stream) sendInspection(typeURL string, answer Inspection) error {
	st.server.sendWatch.begin(st, st.server.options.Now())
	defer st.server.sendWatch.end(st)
	var from *corev3.ControlPlane
	if answer.ControlPlane != "" {
		from = &corev3.ControlPlane{Identifier: answer.ControlPlane}
	}
	if st.protocol == session.Delta {
		response := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: st.inspected, ControlPlane: from}
		for _, r := range answer.Resources {
			response.Resources = append(response.Resources, &discoveryv3.Resource{
				Name: r.Name, Version: st.inspected, Resource: r.Body,
			})
		}
		return st.grpc.SendMsg(response)
	}
	response := &discoveryv3.DiscoveryResponse{
		TypeUrl: typeURL, Nonce: st.inspected, VersionInfo: st.inspected, ControlPlane: from,
	}
	for _, r := range answer.Resources {
		response.Resources = append(response.Resources, r.Body)
	}
	return st.grpc.SendMsg(response)
}
