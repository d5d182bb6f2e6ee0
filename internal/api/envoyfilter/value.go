package envoyfilter

import (
	"regexp"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// message is a message that checks the rules of its fields.
type message interface {
	proto.Message
	Validate() error
}

// messageOf returns an empty value for a patch of a target.
func messageOf(target model.PatchTarget) message {
	switch target {
	case model.PatchListener:
		return &listenerv3.Listener{}
	case model.PatchFilterChain:
		return &listenerv3.FilterChain{}
	case model.PatchListenerFilter:
		return &listenerv3.ListenerFilter{}
	case model.PatchNetworkFilter:
		return &listenerv3.Filter{}
	case model.PatchHTTPFilter:
		return &hcmv3.HttpFilter{}
	case model.PatchRouteConfiguration:
		return &routev3.RouteConfiguration{}
	case model.PatchVirtualHost:
		return &routev3.VirtualHost{}
	case model.PatchHTTPRoute:
		return &routev3.Route{}
	case model.PatchCluster:
		return &clusterv3.Cluster{}
	default:
		return &corev3.TypedExtensionConfig{}
	}
}

// value reads the value of a patch. It does not repeat what stands there: that may be secret.
func (r *reader) value(p *model.ConfigPatch, in *structpb.Struct) model.PatchValue {
	const at = ".patch.value"
	if p.Operation == model.PatchRemove {
		return model.PatchValue{}
	}
	m := messageOf(p.Target)
	name := string(m.ProtoReflect().Descriptor().FullName())
	if in == nil {
		r.fail(at, "", "is missing", "the fields of "+name)
		return model.PatchValue{}
	}
	text, err := protojson.Marshal(in)
	if err == nil {
		err = protojson.Unmarshal(text, m)
	}
	if err != nil && strings.Contains(err.Error(), "unknown field") {
		r.warn(at, "", mistakeOf(err)+": this version of Envoy's API does not have it, and it is left out",
			"the fields of "+name)
		m = messageOf(p.Target)
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, m)
	}
	if err != nil {
		r.fail(at, "", mistakeOf(err), "the fields of "+name)
		return model.PatchValue{}
	}
	if _, err := unwrap(m.ProtoReflect()); err != nil {
		r.fail(at, "", mistakeOf(err), "the fields of "+name)
		return model.PatchValue{}
	}
	if !p.Operation.Merges() {
		r.check(at, m)
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		r.fail(at, "", mistakeOf(err), "the fields of "+name)
		return model.PatchValue{}
	}
	out := model.PatchValue{Type: name, Body: string(body)}
	if named, has := m.(interface{ GetName() string }); has {
		out.Name = named.GetName()
	}
	if configured, has := m.(interface{ GetTypedConfig() *anypb.Any }); has {
		out.Config = configured.GetTypedConfig().GetTypeUrl()
	}
	return out
}

// mistakeOf returns what an error of the decoder says, without the value, which may be secret, and
// without where in the text it stands: the text is not the user's. The decoder changes its spaces
// from build to build.
func mistakeOf(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = regexp.MustCompile(`^proto: *|\(line \d+:\d+\):? *|syntax error *:? *`).ReplaceAllString(text, "")
	values := regexp.MustCompile(`(invalid value for [^:]*|invalid google\.protobuf\.\w+ value):? .*`)
	text = values.ReplaceAllString(text, "$1")
	if strings.Contains(text, "unable to resolve") {
		text = "names a type that is no extension of Envoy: " + text
		if strings.Contains(text, ".v2.") || strings.Contains(text, "api.v2") {
			text += " (Envoy has no API of version 2 any more; the types of version 3 end in .v3)"
		}
	}
	return text
}

// check fails a value that Envoy would refuse: by the rules of its fields, and of those of the
// configuration in it, or because a filter has none.
func (r *reader) check(at string, m message) {
	if err := m.Validate(); err != nil {
		r.fail(at, "", "breaks a rule of Envoy: "+err.Error(), "a value that Envoy takes")
		return
	}
	if name := unconfigured(m); name != "" {
		r.fail(at, name, "has no typed_config, without which Envoy knows no filter", "typed_config with its @type")
		return
	}
	if err := brokenRule(m.ProtoReflect()); err != nil {
		r.fail(at, "", "breaks a rule of Envoy: "+mistakeOf(err), "a value that Envoy takes")
	}
}

// unconfigured returns the name of a filter that has no configuration.
func unconfigured(m message) string {
	f, is := m.(filter)
	if !is || f.GetTypedConfig() != nil || f.GetConfigDiscovery() != nil {
		return ""
	}
	return f.GetName()
}

// filter is a filter of any kind: of connections, of requests, or of a listener.
type filter interface {
	GetName() string
	GetTypedConfig() *anypb.Any
	GetConfigDiscovery() *corev3.ExtensionConfigSource
}

// brokenRule returns the first rule that a message breaks which is packed in another one.
func brokenRule(in protoreflect.Message) (broken error) {
	if packed, is := in.Interface().(*anypb.Any); is && packed.GetTypeUrl() != "" {
		m, err := packed.UnmarshalNew()
		if err != nil {
			return err
		}
		if checked, has := m.(message); has {
			if err := checked.Validate(); err != nil {
				return err
			}
		}
		return brokenRule(m.ProtoReflect())
	}
	in.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		eachMessage(field, v, func(m protoreflect.Message) {
			if broken == nil {
				broken = brokenRule(m)
			}
		})
		return broken == nil
	})
	return broken
}

// eachMessage calls do with the messages that a field has.
func eachMessage(field protoreflect.FieldDescriptor, v protoreflect.Value, do func(protoreflect.Message)) {
	switch {
	case field.IsMap() && field.MapValue().Message() != nil:
		v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
			do(v.Message())
			return true
		})
	case field.IsList() && field.Message() != nil:
		for i := range v.List().Len() {
			do(v.List().Get(i).Message())
		}
	case !field.IsMap() && !field.IsList() && field.Message() != nil:
		do(v.Message())
	}
}
