package xdsproxy

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
)

// Hook is a type of resources that the agent itself subscribes to, on the stream of its Envoy:
// Istio's name table (istio.networking.nds.v1.NameTable), its trust bundle
// (istio.mesh.v1alpha1.ProxyConfig).
type Hook struct {
	TypeURL string
	// Names are subscribed to. Without any, all are: that is how Istio's agent asks for its types.
	Names []string
	// Apply is told what has changed, in the order in which it came, by one goroutine at a time. An
	// error refuses the update: the control plane is told why, and all stays as it was. Apply
	// should be quick, because Envoy's responses wait behind it.
	//
	// At the start of the process it is told what the cache has, if that is anything.
	Apply func(Update) error
}

// Update is a change of the resources of a type.
type Update struct {
	// Whole says that Resources are all that there are. Otherwise those not named stay.
	Whole     bool
	Resources []Resource
	Removed   []string
}

// Resource is one resource of a type.
type Resource struct {
	// Name is empty in the state of the world, where resources have none.
	Name    string
	Version string
	// Body is the encoded message, without the google.protobuf.Any around it. Apply may keep it.
	Body []byte
}

// subscriber is a Hook and what the control plane has been told of it.
type subscriber struct {
	Hook

	mu sync.Mutex
	// versions of the resources that were applied, by name. In the state of the world it has one,
	// with an empty name.
	versions map[string]string
}

// ask returns the first request of a stream.
func (s *subscriber) ask(v *wire.Variant) *wire.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.head(v)
	if !v.Delta {
		return wire.Bytes(b)
	}
	names := make([]string, 0, len(s.versions))
	for name := range s.versions {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		b = wire.AppendBytes(b, v.Versions, wire.AppendString(wire.AppendString(nil, 1, name), 2, s.versions[name]))
	}
	return wire.Bytes(b)
}

// head returns the type, and the names that a first request has, or any in the state of the world.
func (s *subscriber) head(v *wire.Variant) []byte {
	b := wire.AppendString(nil, v.RequestType, s.TypeURL)
	for _, name := range s.Names {
		b = wire.AppendString(b, v.Names, name)
	}
	if !v.Delta {
		b = wire.AppendString(b, wire.Version, s.versions[""])
	}
	return b
}

// take applies a response, and returns the answer.
func (s *subscriber) take(v *wire.Variant, m *wire.Message, p response) *wire.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	refusal := s.apply(v, m, p)
	var b []byte
	if v.Delta {
		b = wire.AppendString(nil, v.RequestType, s.TypeURL)
	} else {
		b = s.head(v)
	}
	b = wire.AppendString(b, v.Ack, p.nonce)
	if refusal != nil {
		status := protowire.AppendTag(nil, 1, protowire.VarintType)
		status = protowire.AppendVarint(status, uint64(codes.InvalidArgument))
		b = wire.AppendBytes(b, v.Refusal, wire.AppendString(status, 2, refusal.Error()))
	}
	return wire.Bytes(b)
}

func (s *subscriber) apply(v *wire.Variant, m *wire.Message, p response) error {
	u := Update{Whole: !v.Delta}
	err := resourcesOf(v, m, p, func(i item) {
		u.Resources = append(u.Resources, Resource{Name: i.name, Version: i.version, Body: bytesOf(i.body)})
	}, func(name string) { u.Removed = append(u.Removed, name) })
	if err == nil {
		err = s.Apply(u)
	}
	if err != nil {
		return err
	}
	s.remember(u, p.version)
	return nil
}

func (s *subscriber) remember(u Update, whole string) {
	if u.Whole {
		s.versions = map[string]string{"": whole}
		return
	}
	delete(s.versions, "")
	for _, r := range u.Resources {
		s.versions[r.Name] = r.Version
	}
	for _, name := range u.Removed {
		delete(s.versions, name)
	}
}

func bytesOf(r wire.Reader) []byte {
	b := make([]byte, 0, r.Left())
	r.Each(r.Left(), func(part []byte) { b = append(b, part...) })
	return b
}
