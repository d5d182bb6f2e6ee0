package adscript

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// Type is the URL of a type of resources.
type Type string

// The types that Envoy asks for here.
const (
	Clusters     Type = typeurl.Cluster
	Endpoints    Type = typeurl.Endpoint
	Members      Type = typeurl.LbEndpoint // of LEDS collections
	Listeners    Type = typeurl.Listener
	Routes       Type = typeurl.Route
	VirtualHosts Type = typeurl.VirtualHost
	Secrets      Type = typeurl.Secret
	Filters      Type = typeurl.Filter // ECDS

	marker Type = "type.googleapis.com/envoy.service.runtime.v3.Runtime"
)

var short = map[Type]string{
	Clusters: "cds", Endpoints: "eds", Members: "leds", Listeners: "lds", Routes: "rds", VirtualHosts: "vhds",
	Secrets: "sds", Filters: "ecds", marker: "marker",
}

// String is the usual abbreviation, such as "cds".
func (t Type) String() string {
	if s := short[t]; s != "" {
		return s
	}
	return string(t)
}

// Request is a message of Envoy.
type Request struct {
	Stream int // 1 for the first that Envoy opened
	Type   Type
	Node   *corev3.Node // nil if the message has none
	Bytes  int          // of the encoded message

	Nonce string           // of the response that this answers, or ""
	Error *statuspb.Status // not nil: a NACK

	Subscribe   []string // in state of the world: the names that the request before it did not have
	Unsubscribe []string // in state of the world: the names that it no longer has

	InitialVersions map[string]string // delta only
	Names           []string          // state of the world only
	Version         string            // state of the world only
}

func (r Request) String() string {
	s := fmt.Sprintf("%d > %s", r.Stream, r.Type)
	if len(r.Subscribe) > 0 {
		s += fmt.Sprintf(" sub=%v", r.Subscribe)
	}
	if len(r.Unsubscribe) > 0 {
		s += fmt.Sprintf(" unsub=%v", r.Unsubscribe)
	}
	if len(r.InitialVersions) > 0 {
		s += fmt.Sprintf(" init=%v", r.InitialVersions)
	}
	if r.Version != "" {
		s += fmt.Sprintf(" version=%s", r.Version)
	}
	if r.Nonce != "" {
		s += " nonce=" + r.Nonce
	}
	if r.Error != nil {
		s += fmt.Sprintf(" error=%q", strings.TrimSpace(r.Error.GetMessage()))
	}
	return s
}

// opens reports whether it is the first of its type on its stream, given those before it.
func (r Request) opens(before []*record) bool {
	return !slices.ContainsFunc(before, func(b *record) bool { return b.Stream == r.Stream && b.Type == r.Type })
}

// Response is what a test sends.
type Response struct {
	Type      Type
	Version   string // of the whole: version_info, system_version_info
	Nonce     string // one of its own if ""
	Resources []Resource
	Removed   []string // delta only
}

// Resource is one of a Response.
type Resource struct {
	Name    string
	Version string
	Aliases []string
	Body    proto.Message // nil: none
	Raw     []byte        // the body's bytes, in place of Body
}

// Push is a response of messages that are all of one type, under the names that they have, all at
// one version.
func Push(version string, bodies ...proto.Message) Response {
	r := Response{Version: version}
	for _, b := range bodies {
		r.Type = typeOf(b)
		r.Resources = append(r.Resources, Resource{Name: nameOf(b), Version: version, Body: b})
	}
	return r
}

// PushNamed is a response of resources of a type, for names or bodies that Push cannot know.
func PushNamed(t Type, version string, resources ...Resource) Response {
	r := Response{Type: t, Version: version, Resources: slices.Clone(resources)}
	for i := range r.Resources {
		if r.Resources[i].Version == "" {
			r.Resources[i].Version = version
		}
	}
	return r
}

// Removal is a response that removes names, and without any an empty one.
func Removal(t Type, names ...string) Response { return Response{Type: t, Removed: names} }

// Removing is r, which also removes names.
func (r Response) Removing(names ...string) Response {
	r.Removed = append(slices.Clone(r.Removed), names...)
	return r
}

// Bytes is how long the encoded response is in the delta variant, without the nonce that Send gives
// it.
func (r Response) Bytes() (int, error) {
	m, err := r.delta()
	return proto.Size(m), err
}

func (r Response) String() string {
	s := fmt.Sprintf("< %s nonce=%s", r.Type, r.Nonce)
	for _, res := range r.Resources {
		s += fmt.Sprintf(" %s@%s", res.Name, res.Version)
		if len(res.Aliases) > 0 {
			s += fmt.Sprintf("%v", res.Aliases)
		}
	}
	for _, name := range r.Removed {
		s += " -" + name
	}
	return s
}

func typeOf(m proto.Message) Type {
	return Type("type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()))
}

// nameOf is the resource name that a message of xDS carries in itself.
func nameOf(m proto.Message) string {
	switch m := m.(type) {
	case interface{ GetClusterName() string }:
		return m.GetClusterName()
	case interface{ GetName() string }:
		return m.GetName()
	}
	return ""
}

func (res Resource) any(t Type) (*anypb.Any, error) {
	if res.Raw != nil {
		return &anypb.Any{TypeUrl: string(t), Value: res.Raw}, nil
	}
	if res.Body == nil {
		return nil, nil
	}
	return anypb.New(res.Body)
}

func (r Response) delta() (*discoveryv3.DeltaDiscoveryResponse, error) {
	out := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: string(r.Type), SystemVersionInfo: r.Version, Nonce: r.Nonce, RemovedResources: r.Removed,
	}
	for _, res := range r.Resources {
		body, err := res.any(r.Type)
		if err != nil {
			return nil, err
		}
		out.Resources = append(out.Resources, &discoveryv3.Resource{
			Name: res.Name, Version: res.Version, Aliases: res.Aliases, Resource: body,
		})
	}
	return out, nil
}

func (r Response) stateOfTheWorld() (*discoveryv3.DiscoveryResponse, error) {
	out := &discoveryv3.DiscoveryResponse{TypeUrl: string(r.Type), VersionInfo: r.Version, Nonce: r.Nonce}
	for _, res := range r.Resources {
		body, err := res.any(r.Type)
		if err != nil {
			return nil, err
		}
		out.Resources = append(out.Resources, body)
	}
	return out, nil
}

func fromDelta(stream int, m *discoveryv3.DeltaDiscoveryRequest) Request {
	return Request{
		Stream: stream, Type: Type(m.GetTypeUrl()), Node: m.GetNode(), Bytes: proto.Size(m),
		Nonce: m.GetResponseNonce(), Error: m.GetErrorDetail(),
		Subscribe: m.GetResourceNamesSubscribe(), Unsubscribe: m.GetResourceNamesUnsubscribe(),
		InitialVersions: maps.Clone(m.GetInitialResourceVersions()),
	}
}

// fromStateOfTheWorld needs the names of the type's request before it on the stream.
func fromStateOfTheWorld(stream int, m *discoveryv3.DiscoveryRequest, before []string) Request {
	names := m.GetResourceNames()
	return Request{
		Stream: stream, Type: Type(m.GetTypeUrl()), Node: m.GetNode(), Bytes: proto.Size(m),
		Nonce: m.GetResponseNonce(), Error: m.GetErrorDetail(), Names: names, Version: m.GetVersionInfo(),
		Subscribe:   without(names, before),
		Unsubscribe: without(before, names),
	}
}

func without(names, others []string) []string {
	var left []string
	for _, n := range names {
		if !slices.Contains(others, n) {
			left = append(left, n)
		}
	}
	return left
}
