package extension

import (
	"math"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/envoyfilter"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Spec is what an object says. One of Wasm and Lua is set.
type Spec struct {
	Object source.Key
	// Path is that of the fields of Wasm or Lua, as "spec.wasm".
	Path  string
	Wasm  *extensions.WasmConfig
	Lua   *extensions.LuaConfig
	Phase extensions.TrafficExtension_ExecutionPhase
	Match []*extensions.TrafficSelector
	// Version changes with the object: agents then ask again which module a tag stands for.
	Version string
}

// OfPlugin returns what a WasmPlugin says: what a TrafficExtension does, with its fields in one
// message.
func OfPlugin(object source.Key, in *extensions.WasmPlugin) Spec {
	s := Spec{
		Object: object, Path: "spec", Phase: extensions.TrafficExtension_ExecutionPhase(in.GetPhase()),
		Wasm: &extensions.WasmConfig{
			Url: in.GetUrl(), Sha256: in.GetSha256(), ImagePullPolicy: in.GetImagePullPolicy(),
			ImagePullSecret: in.GetImagePullSecret(), PluginConfig: in.GetPluginConfig(),
			PluginName: in.GetPluginName(), FailStrategy: in.GetFailStrategy(), VmConfig: in.GetVmConfig(),
			Type: in.GetType(),
		},
	}
	for _, m := range in.GetMatch() {
		s.Match = append(s.Match, &extensions.TrafficSelector{Mode: m.GetMode(), Ports: m.GetPorts()})
	}
	return s
}

// Priority returns the place of an object within its phase: a larger one comes first, and one
// without a priority last, as in Istio.
func Priority(in *wrapperspb.Int32Value) int32 {
	if in == nil {
		return math.MinInt32
	}
	return in.GetValue()
}

// Read reads an object. There are no patches if it adds nothing. The problems have no object and no
// origin.
func Read(s Spec) (model.ExtensionPhase, []*model.ConfigPatch, []source.Problem) {
	r := &reader{Spec: s}
	phase, class := r.phase()
	where := r.where()
	p := model.ConfigPatch{Target: model.PatchHTTPFilter, Operation: model.PatchAdd, Class: class}
	switch {
	case s.Lua != nil:
		r.lua(&p)
	default:
		r.wasm(&p)
	}
	if p.Value.Type == "" {
		return phase, nil, r.problems
	}
	return phase, where.patches(p), r.problems
}

// reader reads one object.
type reader struct {
	Spec
	failed   bool
	problems []source.Problem
}

// fail says what cannot be in force.
func (r *reader) fail(field, value, message, want string) {
	r.failed = true
	r.add(source.Error, r.Path+field, source.Problem{Value: value, Message: message + r.closed(), Want: want})
}

func (r *reader) warn(path, value, message, want string) {
	r.add(source.Warning, path, source.Problem{Value: value, Message: message, Want: want})
}

func (r *reader) add(severity source.Severity, path string, p source.Problem) {
	p.Severity, p.Path = severity, path
	r.problems = append(r.problems, p)
}

// closed says what becomes of an object with a mistake.
func (r *reader) closed() string {
	if r.isOpen() {
		return "; requests pass without the filter"
	}
	return "; all that the filter is for is refused"
}

// isOpen reports whether traffic passes where the filter cannot be had. Istio's Lua has no fail
// strategy: a script in front of, or between, what decides on requests closes.
func (r *reader) isOpen() bool {
	if r.Lua != nil {
		return r.Phase != extensions.TrafficExtension_AUTHN && r.Phase != extensions.TrafficExtension_AUTHZ
	}
	return r.Wasm.GetFailStrategy() == extensions.FailStrategy_FAIL_OPEN
}

// phase reads where the filter stands.
func (r *reader) phase() (model.ExtensionPhase, model.FilterClass) {
	switch r.Phase {
	case extensions.TrafficExtension_AUTHN:
		return model.AuthenticationPhase, model.FirstClass
	case extensions.TrafficExtension_AUTHZ:
		return model.AuthorizationPhase, model.BetweenClass
	case extensions.TrafficExtension_STATS:
		return model.StatsPhase, model.BehindClass
	case extensions.TrafficExtension_UNSPECIFIED:
	default:
		r.warn("spec.phase", r.Phase.String(), "is no phase; the filter stands behind all others",
			"AUTHN, AUTHZ, STATS or none")
	}
	return model.LastPhase, model.BehindClass
}

// name is that of the filter and of its resource, as in Istio.
func (r *reader) name() string {
	of := "trafficextension"
	if r.Object.Kind == kinds.WasmPlugin {
		of = "wasmplugin"
	}
	return "extensions.istio.io/" + of + "/" + r.id()
}

// id is that of the plugin, as in Istio.
func (r *reader) id() string { return r.Object.Namespace + "." + r.Object.Name }

// configure sets the value of the patch: a filter with a configuration.
func (r *reader) configure(p *model.ConfigPatch, config proto.Message) {
	value, err := envoyfilter.FilterValue(p.Target, r.name(), config)
	if err != nil {
		r.fail("", "", "cannot be encoded: "+err.Error(), "text in UTF-8")
		return
	}
	p.Value = value
}
