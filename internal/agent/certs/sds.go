package certs

import (
	"context"
	"maps"
	"net"
	"slices"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// Serve serves secrets to Envoy until ctx ends, and then returns nil. The listener is one that
// Envoy alone may connect to (wire.Listen), as there is nothing else that keeps others away.
func (m *Manager) Serve(ctx context.Context, l net.Listener) error {
	return wire.Service{
		Name:  "envoy.service.secret.v3.SecretDiscoveryService",
		Delta: "DeltaSecrets", StateOfTheWorld: "StreamSecrets",
		Handle: func(v *wire.Variant, down grpc.ServerStream) error {
			s := &stream{manager: m, v: v, down: down, names: map[string]string{}}
			return s.run()
		},
	}.Serve(ctx, l)
}

// maxNames may be asked for on one stream. Envoy has a stream for each.
const maxNames = 100

// stream is one of Envoy.
type stream struct {
	manager *Manager
	v       *wire.Variant
	down    grpc.ServerStream
	// names that are asked for, with the version that was sent last.
	names map[string]string
	sent  int
}

// run answers until the stream ends.
func (s *stream) run() error {
	requests := make(chan *wire.Message)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			m := &wire.Message{}
			if s.down.RecvMsg(m) != nil {
				return
			}
			select {
			case requests <- m:
			case <-s.down.Context().Done():
				return
			}
		}
	}()
	for {
		found, changed := s.manager.secrets.get(s.names)
		if err := s.send(found); err != nil {
			return err
		}
		select {
		case m := <-requests:
			err := s.take(m)
			m.Free()
			if err != nil {
				return err
			}
		case <-changed:
		case <-ended:
			return nil
		}
	}
}

// take takes in a request.
func (s *stream) take(m *wire.Message) error {
	q, err := s.v.ReadRequest(m)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if q.TypeURL != "" && q.TypeURL != typeurl.Secret {
		return status.Errorf(codes.InvalidArgument, "type %.200q; want %s", q.TypeURL, typeurl.Secret)
	}
	if q.IsRefusal {
		s.manager.counts.refused.Add(1)
		s.manager.options.Log.Warn("Envoy refuses a certificate", "names", slices.Sorted(maps.Keys(s.names)),
			"error", q.Reason)
	}
	asked := map[string]string{}
	s.v.Visit(m, wire.Visitor{
		Asked:        func(name []byte) { asked[string(name)] = s.names[string(name)] },
		Unsubscribed: func(name []byte) { delete(s.names, string(name)) },
		Reported:     func([]byte) {},
	})
	if s.v.Delta { // what is asked for again is sent again
		for name := range asked {
			s.names[name] = ""
		}
	} else {
		s.names = asked
	}
	if len(s.names) > maxNames {
		return status.Errorf(codes.ResourceExhausted, "%d names; want at most %d", len(s.names), maxNames)
	}
	for name := range asked {
		s.manager.follow(name)
	}
	return nil
}

// follow sees to it that a secret of files is read.
func (m *Manager) follow(name string) {
	if name == ownName || name == rootsName {
		return
	}
	s := sourceOf(name, m.secrets)
	if s == nil {
		m.options.Log.Warn("Envoy asks for a certificate that no agent has", "name", name)
		return
	}
	if err := m.files.follow(name, s); err != nil {
		m.options.Log.Warn("a certificate of files is not served", "error", err)
	}
}

// send sends what the client does not have. In the state of the world a response has all.
func (s *stream) send(found map[string]secret) error {
	var fresh []string
	for name, one := range found {
		if s.names[name] != one.version {
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if !s.v.Delta {
		fresh = slices.Collect(maps.Keys(found))
	}
	slices.Sort(fresh)
	s.sent++
	nonce := strconv.Itoa(s.sent)
	b := wire.AppendString(nil, s.v.ResponseType, typeurl.Secret)
	b = wire.AppendString(b, s.v.Nonce, nonce)
	for _, name := range fresh {
		one := found[name]
		s.names[name] = one.version
		if s.v.Delta {
			resource := wire.AppendString(wire.AppendString(nil, 1, one.version), 3, name)
			b = wire.AppendBytes(b, s.v.Resources, wire.AppendBytes(resource, 2, one.any))
		} else {
			b = wire.AppendBytes(b, s.v.Resources, one.any)
		}
	}
	if !s.v.Delta {
		b = wire.AppendString(b, protowire.Number(1), nonce)
	}
	return s.down.SendMsg(wire.Bytes(b))
}
