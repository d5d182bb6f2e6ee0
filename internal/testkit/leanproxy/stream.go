package leanproxy

import (
	"context"
	"maps"
	"slices"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// stream is one stream of a client. Its one goroutine receives, keeps, acknowledges and asks for
// what follows.
type stream struct {
	client *Client
	ads    discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	asked  map[Type][]string // what is subscribed, sorted; a key for each type that was asked for
}

func (c *Client) stream(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ads, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	s := &stream{client: c, ads: ads, asked: map[Type][]string{}}
	c.update(func(s *State) {
		s.Connected = true
		s.Streams++
		clear(s.waits)
		s.busy = true
	})
	if err := s.begin(); err != nil {
		return err
	}
	c.update(func(s *State) { s.busy = false })
	for {
		response, err := ads.Recv()
		if err != nil {
			return err
		}
		if err := s.take(response); err != nil {
			return err
		}
	}
}

// begin asks for clusters, and after a reconnect for everything at once: what has not changed gets
// no answer that could be waited for.
func (s *stream) begin() error {
	if err := s.open(Cluster, nil); err != nil || len(s.referred(Cluster)) == 0 {
		return err
	}
	if err := s.want(Endpoint, s.referred(Cluster)); err != nil {
		return err
	}
	if err := s.want(Member, s.referred(Endpoint)); err != nil {
		return err
	}
	if err := s.open(Listener, nil); err != nil {
		return err
	}
	if err := s.want(Route, s.referred(Listener)); err != nil {
		return err
	}
	return s.openHosts()
}

// openHosts asks for virtual hosts if a route table says so.
func (s *stream) openHosts() (err error) {
	vhds := false
	s.client.Look(func(state *State) { vhds = state.usesVHDS() })
	if vhds {
		err = s.open(VirtualHost, nil)
	}
	return err
}

// take keeps a response and answers it. What it cannot read it refuses.
func (s *stream) take(in *discoveryv3.DeltaDiscoveryResponse) error {
	t := Type(in.GetTypeUrl())
	read := map[string]resource{}
	answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: in.GetTypeUrl(), ResponseNonce: in.GetNonce()}
	response := Response{Type: t, Removed: in.GetRemovedResources(), Size: proto.Size(in), At: time.Now()}
	for _, r := range in.GetResources() {
		kept, err := decode(t, r)
		if err != nil {
			return err
		}
		read[r.GetName()] = kept
		response.Names = append(response.Names, r.GetName())
	}
	s.client.update(func(state *State) {
		state.apply(response, read)
		state.busy = true
	})
	if err := s.ads.Send(answer); err != nil {
		return err
	}
	if err := s.follow(t); err != nil {
		return err
	}
	s.client.update(func(state *State) { state.busy = false })
	return nil
}

// follow asks for what the resources of a type name, and for the next type.
func (s *stream) follow(t Type) error {
	switch t {
	case Cluster:
		if err := s.want(Endpoint, s.referred(Cluster)); err != nil {
			return err
		}
		if len(s.asked[Endpoint]) == 0 {
			return s.open(Listener, nil)
		}
	case Endpoint:
		if err := s.want(Member, s.referred(Endpoint)); err != nil {
			return err
		}
		return s.open(Listener, nil)
	case Listener:
		return s.want(Route, s.referred(Listener))
	case Route:
		return s.openHosts()
	}
	return nil
}

func (s *stream) referred(t Type) (names []string) {
	s.client.Look(func(state *State) { names = state.referred(t) })
	return names
}

// open asks for a type for the first time on this stream, with the versions that the proxy has; a
// second call does nothing.
func (s *stream) open(t Type, names []string) error {
	if _, is := s.asked[t]; is {
		return nil
	}
	s.asked[t] = names
	request := &discoveryv3.DeltaDiscoveryRequest{
		Node:                    s.client.options.Node,
		TypeUrl:                 string(t),
		ResourceNamesSubscribe:  names,
		InitialResourceVersions: map[string]string{},
	}
	s.client.update(func(state *State) {
		for name, r := range state.resources[t] {
			if t == Member {
				break // of which no client reports any
			}
			request.InitialResourceVersions[name] = r.version
		}
		// A server owes nothing for names whose versions are right.
		if len(names) == 0 && len(request.InitialResourceVersions) == 0 {
			state.waits[t] = true
		}
	})
	return s.ads.Send(request)
}

// want subscribes to exactly these names of a type, and forgets resources of others.
func (s *stream) want(t Type, names []string) error {
	had, asked := s.asked[t]
	if !asked {
		if len(names) == 0 {
			return nil
		}
		return s.open(t, names)
	}
	without := func(a, b []string) (rest []string) {
		for _, name := range a {
			if _, found := slices.BinarySearch(b, name); !found {
				rest = append(rest, name)
			}
		}
		return rest
	}
	more, less := without(names, had), without(had, names)
	if len(more)+len(less) == 0 {
		return nil
	}
	s.asked[t] = names
	s.client.update(func(state *State) {
		for _, name := range less {
			delete(state.resources[t], name)
			maps.DeleteFunc(state.resources[t], func(member string, _ resource) bool {
				return t == Member && collectionOf(member) == name
			})
		}
		if t == Route {
			for _, name := range slices.Concat(more, less) {
				delete(state.filled, name) // a table that comes back has lost its virtual hosts
			}
		}
	})
	return s.ads.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl:                  string(t),
		ResourceNamesSubscribe:   more,
		ResourceNamesUnsubscribe: less,
	})
}

// apply takes a response's resources in. Endpoints and routes are not removed while they are
// subscribed, as in Envoy.
func (s *State) apply(response Response, read map[string]resource) {
	delete(s.waits, response.Type)
	s.Responses = append(s.Responses, response)
	of := s.resources[response.Type]
	if of == nil {
		return
	}
	for name, r := range read {
		of[name] = r
		for _, d := range r.domains {
			if _, known := s.domains[d]; !known {
				s.domains[d] = response.At
			}
		}
	}
	if response.Type == VirtualHost {
		for _, name := range slices.Concat(response.Names, response.Removed) {
			s.filled[tableOf(name)] = true
		}
	}
	if response.Type == Cluster || response.Type == Member || response.Type == Listener ||
		response.Type == VirtualHost {
		for _, name := range response.Removed {
			delete(of, name)
		}
	}
}
