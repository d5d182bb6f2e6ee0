package inject

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	mesh "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source/istiojson"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// values are the text under ValuesKey: Istio's Helm values, over the defaults.
type values map[string]any

func newValues(o Options, text string) (values, error) {
	var standard, under, given map[string]any
	for _, into := range []*map[string]any{&standard, &under} {
		if err := yaml.Unmarshal([]byte(defaultValues), into); err != nil {
			return nil, fmt.Errorf("the default values: %w", err)
		}
	}
	err := untrusted.CheckFile([]byte(text))
	if err == nil {
		err = yaml.Unmarshal([]byte(text), &given)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ValuesKey, err)
	}
	all := values(overlay(under, given))
	if err := errors.Join(wrongTypes("", standard, all)...); err != nil {
		return nil, err
	}
	if p := all.text("pilot.cni.provider"); p != chainedPlugin && p != multusPlugin {
		return nil, fmt.Errorf("%s: pilot.cni.provider = %q; want %s or %s", ValuesKey, p, chainedPlugin, multusPlugin)
	}
	global, _ := all["global"].(map[string]any)
	if values(given).at("global.istioNamespace") == nil {
		global["istioNamespace"] = o.Namespace
	}
	if values(given).at("revision") == nil {
		all["revision"] = o.suffix()
	}
	if o.ProxyImage != "" {
		image := map[string]any{"image": o.ProxyImage}
		overlay(global, map[string]any{"proxy": image, "proxy_init": image})
	}
	return all, nil
}

// wrongTypes returns what has another type than in the defaults: an object, a list, or one value.
func wrongTypes(path string, standard, given any) []error {
	want := typeName(standard)
	if got := typeName(given); got != want {
		return []error{fmt.Errorf("%s: %s is %s; want %s", ValuesKey, path, got, want)}
	}
	var problems []error
	if of, ok := standard.(map[string]any); ok {
		all, _ := asObject(given)
		for _, key := range sortedKeys(of) {
			problems = append(problems, wrongTypes(strings.TrimPrefix(path+"."+key, "."), of[key], all[key])...)
		}
	}
	return problems
}

func typeName(value any) string {
	if _, ok := asObject(value); ok {
		return "an object"
	}
	if _, ok := value.([]any); ok {
		return "a list"
	}
	return "one value"
}

func asObject(value any) (map[string]any, bool) {
	if v, ok := value.(values); ok {
		return v, true
	}
	of, ok := value.(map[string]any)
	return of, ok
}

// suffix is the revision, empty for the only one.
func (o Options) suffix() string {
	if o.Revision == "default" {
		return ""
	}
	return o.Revision
}

// overlay returns over on top of under, level by level. null removes nothing: a chart writes it
// where a user says nothing.
func overlay(under, over map[string]any) map[string]any {
	for key, value := range over {
		now, isMap := value.(map[string]any)
		before, wasMap := under[key].(map[string]any)
		switch {
		case isMap && wasMap:
			under[key] = overlay(before, now)
		case value != nil || under[key] == nil:
			under[key] = value
		}
	}
	return under
}

// at returns the value under a dotted path, nil if there is none.
func (v values) at(path string) any {
	var value any = map[string]any(v)
	for key := range strings.SplitSeq(path, ".") {
		of, _ := value.(map[string]any)
		value = of[key]
	}
	return value
}

// text returns the value under a path as text.
func (v values) text(path string) string {
	value := v.at(path)
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func (v values) bool(path string) bool { return v.text(path) == "true" }

// copy returns values that a template may change.
func (v values) copy() map[string]any { return copied(map[string]any(v)).(map[string]any) }

// meshConfig is the part of the mesh configuration that Pods depend on.
type meshConfig struct {
	*mesh.MeshConfig
	proxy *mesh.ProxyConfig // the default of all proxies, over Istio's
}

func newMesh(o Options, text string) (*meshConfig, error) {
	m := &meshConfig{MeshConfig: &mesh.MeshConfig{}}
	if err := unmarshal(text, m.MeshConfig, protojson.UnmarshalOptions{DiscardUnknown: true}); err != nil {
		return nil, fmt.Errorf("the mesh configuration: %w", err)
	}
	outbound, inbound := model.ListenPorts(m.ProxyListenPort, m.ProxyInboundListenPort)
	m.ProxyListenPort, m.ProxyInboundListenPort = int32(outbound), int32(inbound)
	m.TrustDomain = cmp.Or(m.TrustDomain, "cluster.local")
	m.proxy = overProxy(standardProxy(), m.DefaultConfig)
	if m.DefaultConfig.GetDiscoveryAddress() == "" {
		service := "istiod"
		if o.suffix() != "" {
			service += "-" + o.suffix()
		}
		m.proxy.DiscoveryAddress = fmt.Sprintf("%s.%s.svc:15012", service, o.Namespace)
	}
	m.DefaultConfig = m.proxy
	return m, nil
}

// unmarshal reads YAML of a message.
func unmarshal(text string, m proto.Message, o protojson.UnmarshalOptions) error {
	if err := untrusted.CheckFile([]byte(text)); err != nil {
		return err
	}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err
	}
	return unmarshalJSON(raw, m, o)
}

// unmarshalJSON reads JSON of a message.
func unmarshalJSON(raw []byte, m proto.Message, o protojson.UnmarshalOptions) error {
	if string(raw) == "null" {
		return nil
	}
	if err := istiojson.Unmarshal(raw, m, o); err != nil {
		// protojson's spaces differ from build to build
		return errors.New(strings.ReplaceAll(err.Error(), "\u00a0", " "))
	}
	return nil
}

// standardProxy returns what Istio's agents take for granted.
func standardProxy() *mesh.ProxyConfig {
	return &mesh.ProxyConfig{
		ConfigPath:               "./etc/istio/proxy",
		BinaryPath:               "/usr/local/bin/envoy",
		ClusterName:              &mesh.ProxyConfig_ServiceCluster{ServiceCluster: "istio-proxy"},
		DrainDuration:            &durationpb.Duration{Seconds: 45},
		TerminationDrainDuration: &durationpb.Duration{Seconds: 5},
		DiscoveryAddress:         "istiod.istio-system.svc:15012",
		ControlPlaneAuthPolicy:   mesh.AuthenticationPolicy_MUTUAL_TLS,
		ProxyAdminPort:           15000,
		StatNameLength:           189,
		StatusPort:               15020,
	}
}

// overProxy returns over on top of under. Maps and messages are merged; lists are replaced, and so
// are values that may be unset (google.protobuf.Int32Value and the like), by 0 and false too.
func overProxy(under, over *mesh.ProxyConfig) *mesh.ProxyConfig {
	out := proto.CloneOf(under)
	if over == nil {
		return out
	}
	over.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.IsList() || !f.IsMap() && f.Message() != nil && f.Message().ParentFile().Package() == "google.protobuf" {
			out.ProtoReflect().Clear(f)
		}
		return true
	})
	proto.Merge(out, over)
	return out
}

// proxyJSON returns what differs from the standard, as the variable PROXY_CONFIG holds it.
func proxyJSON(config *mesh.ProxyConfig) (string, error) {
	out, standard := proto.CloneOf(config), standardProxy().ProtoReflect()
	out.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if standard.Has(f) && standard.Get(f).Equal(v) {
			out.ProtoReflect().Clear(f)
		}
		return true
	})
	raw, err := protojson.Marshal(out)
	if err != nil {
		return "", err
	}
	var compact any // protojson's spaces differ from build to build
	if err := json.Unmarshal(raw, &compact); err != nil {
		return "", err
	}
	raw, err = json.Marshal(compact)
	return string(raw), err
}
