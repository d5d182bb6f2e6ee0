package serve

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc/codes"

	"github.com/lateen-mesh/lateen/internal/xds/admission"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// quotas bound what one owner has of the server, so that one that misbehaves delays nobody else and
// fills no memory. Owners on this machine have no limits: they are whole meshes and measurements.
type quotas struct {
	connections admission.Quota[owner]
	streams     admission.Quota[owner]
	metadata    admission.Quota[owner] // bytes
	names       admission.Quota[owner] // that sessions keep beyond those of their classes
	classes     admission.Rates[owner] // made
	calls       admission.Quota[owner] // of further services, at a time
	callRates   admission.Rates[owner] // of callers that are proven
}

// ownerLimits are what one owner may have.
type ownerLimits struct{ streams, metadata, names, classes, calls, callRate int }

const (
	// A Pod has one Envoy, which has two streams while it reconnects.
	podStreams  = 16
	podMetadata = 4 << 20
	podNames    = 20_000
	podClasses  = 10

	// An address without a proven Pod may be a gateway of a network, with many proxies behind it.
	addressStreams  = 2048
	addressMetadata = 64 << 20
	addressNames    = 200_000
	addressClasses  = 120

	// maxNode is the size of the largest node. Istio's agent sends the Pod's labels and annotations
	// in it; those have 256 KiB at most.
	maxNode = 512 << 10
	// freeNames of each stream do not count.
	freeNames = 1000
	// namesPerResource of a class do not count either: what a client is being brought to is kept by
	// name until the client has it.
	namesPerResource = 4
)

// charge is what a stream counts for with its owner.
type charge struct{ streams, metadata, names int }

// limitsOf returns the limits of an owner, and whether it has any.
func (s *Server) limitsOf(o owner) (ownerLimits, bool) {
	switch {
	case o.identity.Pod != "":
		return ownerLimits{podStreams, podMetadata, podNames, podClasses, podCalls, podCallRate}, true
	case o.isLocal(), s.limits.StreamsPerAddress < 0:
		return ownerLimits{}, false
	}
	return ownerLimits{
		s.limits.StreamsPerAddress, addressMetadata, addressNames, addressClasses, addressCalls, addressCallRate,
	}, true
}

// admitConnection counts a connection with its address, and keeps it for Stop. It returns what
// undoes both.
func (s *Server) admitConnection(conn net.Conn) (leave func(), err error) {
	o := ownerOf(Identity{}, conn.RemoteAddr())
	limits, limited := s.limitsOf(o)
	had, ok := 0, true
	if limited {
		had, ok = s.quotas.connections.Take(o, 1, limits.streams)
	}
	if ok {
		s.conns.add(conn)
		return func() {
			s.conns.remove(conn)
			if limited {
				s.quotas.connections.Return(o, 1)
			}
		}, nil
	}
	s.instruments.xds.Limited.WithLabelValues("connections").Inc()
	err = fmt.Errorf("%s has %d connections, which is the limit; want one for each proxy", o.peer, had)
	if skipped, ok := s.logLimit.Allow("connections", s.options.Now()); ok {
		s.options.Log.Warn("connection refused", "error", err, "lines_left_out", skipped)
	}
	return nil, err
}

// chargeStream counts the stream with an owner, in place of the one that it counted with before.
func (st *stream) chargeStream(o owner) error {
	limits, limited := st.server.limitsOf(o)
	had, ok := 0, true
	if limited {
		had, ok = st.server.quotas.streams.Take(o, 1, limits.streams)
	}
	if !ok {
		return st.exceeds("streams", fmt.Errorf("%s has %d streams, which is the limit; want one for each proxy",
			o, had))
	}
	st.refund()
	st.owner = o
	if limited {
		st.charged.streams = 1
	}
	return nil
}

// chargeNode counts the memory of a node and checks its size.
func (st *stream) chargeNode(size int) error {
	if size > maxNode {
		return st.exceeds("metadata", fmt.Errorf("the node has %d bytes; want %d at most, so fewer or shorter "+
			"labels, annotations and metadata", size, maxNode))
	}
	limits, limited := st.server.limitsOf(st.owner)
	if !limited {
		return nil
	}
	had, ok := st.server.quotas.metadata.Take(st.owner, size, limits.metadata)
	if !ok {
		return st.exceeds("metadata", fmt.Errorf("the nodes of %s have %d bytes, and this one %d more; want %d at most",
			st.owner, had, size, limits.metadata))
	}
	st.charged.metadata = size
	return nil
}

// chargeNames counts the names that the session keeps beyond those of its class.
func (st *stream) chargeNames() error {
	limits, limited := st.server.limitsOf(st.owner)
	if !limited {
		return nil
	}
	n := st.session.Exceptions() - freeNames
	for t := range resource.NumTypes {
		n -= namesPerResource * st.session.State().Set(t).Len()
	}
	n = max(n, 0)
	if n == st.charged.names {
		return nil
	}
	if _, ok := st.server.quotas.names.Take(st.owner, n-st.charged.names, limits.names); !ok {
		return st.exceeds("names", fmt.Errorf("%s subscribes to %d names that do not exist; want %d at most",
			st.owner, n, limits.names))
	}
	st.charged.names = n
	return nil
}

// chargeClass counts a class, if the node makes one.
func (st *stream) chargeClass(ctx context.Context, node *Node) error {
	limits, limited := st.server.limitsOf(st.owner)
	o := &st.server.options
	if !limited || o.MakesClass == nil || !o.MakesClass(ctx, node, st.owner.identity) ||
		st.server.quotas.classes.Take(st.owner, limits.classes, o.Now()) {
		return nil
	}
	return st.exceeds("classes", fmt.Errorf("%s has needed %d new configurations within a minute, which is the limit; "+
		"want the same labels, ports and settings in the node's metadata on each of its streams",
		st.owner, limits.classes))
}

// exceeds refuses a stream because of a limit of its owner.
func (st *stream) exceeds(limit string, err error) error {
	st.server.instruments.xds.Limited.WithLabelValues(limit).Inc()
	return st.refuse(codes.ResourceExhausted, err)
}

// refund gives back what the stream counts for.
func (st *stream) refund() {
	q := &st.server.quotas
	if st.charged.streams > 0 {
		q.streams.Return(st.owner, st.charged.streams)
	}
	if st.charged.metadata > 0 {
		q.metadata.Return(st.owner, st.charged.metadata)
	}
	if st.charged.names > 0 {
		q.names.Return(st.owner, st.charged.names)
	}
	st.charged = charge{}
}
