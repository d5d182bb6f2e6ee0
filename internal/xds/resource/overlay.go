package resource

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Overlay is what only one proxy has: its own addresses. A resource that needs them is compiled
// once per class, with placeholders (model.OwnPod, …) in their place. Overlay fills them in when
// the resource is sent.
type Overlay struct {
	Pod      string // where others reach the workload
	App      string // where the workload's own process listens; 127.0.0.1 unless told otherwise
	Outbound string // where the proxy listens for the workload's own calls; 127.0.0.1 unless told otherwise
	// Trusted is set if the proxy may have secrets: it proved to be its Pod, among other things.
	// The sets of other classes have none; the session looks at it in addition. No resource depends
	// on it.
	Trusted bool
}

// Version returns the version of the resource as this proxy gets it.
func (o Overlay) Version(r *Resource) Version {
	if !r.placeholders {
		return r.version
	}
	return versionOf([]byte("own"), r.version[:], []byte(o.Pod), []byte(o.App), []byte(o.Outbound))
}

// Body returns the encoded message as this proxy gets it: the shared bytes, or a copy with the
// placeholders filled in.
func (o Overlay) Body(t Type, r *Resource) []byte {
	if !r.placeholders {
		return r.Body()
	}
	var m proto.Message
	switch t {
	case Cluster:
		m = &clusterv3.Cluster{}
	case Listener:
		m = &listenerv3.Listener{}
	default:
		return r.Body()
	}
	if err := proto.Unmarshal(r.Body(), m); err != nil {
		return r.Body() // what this process encoded decodes; the property test of compiling looks at it
	}
	if l, ok := m.(*listenerv3.Listener); ok && o.onLoopback() {
		l.AdditionalAddresses = nil // it has one
	}
	o.fill(m.ProtoReflect())
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return r.Body()
	}
	return body
}

func (o Overlay) fill(m protoreflect.Message) {
	if a, ok := m.Interface().(*corev3.SocketAddress); ok {
		a.Address = o.address(a.GetAddress())
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Kind() != protoreflect.MessageKind || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				o.fill(v.List().Get(i).Message())
			}
		default:
			o.fill(v.Message())
		}
		return true
	})
}

func (o Overlay) address(a string) string {
	switch a {
	case model.OwnPod:
		return o.Pod
	case model.OwnAny4, model.OwnAny6:
		if o.onLoopback() {
			return o.Pod
		}
		if a == model.OwnAny6 {
			return "::"
		}
		return "0.0.0.0"
	case model.OwnApp:
		return o.App
	case model.OwnOutbound:
		return o.Outbound
	}
	return a
}

// onLoopback reports whether the workload has a loopback address, as in a local mesh. Other
// workloads then have the other loopback addresses of the same host.
func (o Overlay) onLoopback() bool {
	pod, err := netip.ParseAddr(o.Pod)
	return err == nil && pod.IsLoopback()
}
