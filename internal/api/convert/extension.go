package convert

import (
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"
	extensions "istio.io/api/extensions/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"
	extensionsv1alpha1 "istio.io/client-go/pkg/apis/extensions/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/extension"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// wasmPlugin converts a WasmPlugin to what adds its filter.
func (r *reader) wasmPlugin(in *extensionsv1alpha1.WasmPlugin) []Object {
	spec := &in.Spec
	out := &model.EnvoyFilter{Meta: r.meta, Priority: extension.Priority(spec.GetPriority())}
	selection, usable := r.selection("spec", spec)
	out.Selection = selection
	r.extend(out, extension.OfPlugin(r.object, spec), spec)
	r.reportUnused("spec", spec.ProtoReflect())
	return extended(out, usable)
}

// trafficExtension converts a TrafficExtension to what adds its filter.
func (r *reader) trafficExtension(in *extensionsv1alpha1.TrafficExtension) []Object {
	spec := &in.Spec
	out := &model.EnvoyFilter{Meta: r.meta, Priority: extension.Priority(spec.GetPriority())}
	selection, usable := r.selection("spec", extensionTargets{spec})
	out.Selection = selection
	of := extension.Spec{
		Object: r.object, Path: "spec.wasm", Phase: spec.GetPhase(), Match: spec.GetMatch(), Wasm: spec.GetWasm(),
		Lua: spec.GetLua(),
	}
	if of.Lua != nil {
		of.Path = "spec.lua"
	}
	if of.Lua == nil && of.Wasm == nil {
		r.fail("spec", nil, "has no filter", "wasm or lua")
		return nil
	}
	r.extend(out, of, spec)
	r.reportUnused("spec", spec.ProtoReflect())
	return extended(out, usable)
}

// extend adds what an extension does.
func (r *reader) extend(out *model.EnvoyFilter, of extension.Spec, spec proto.Message) {
	of.Version = versionOf(spec)
	phase, patches, problems := extension.Read(of)
	out.Phase = phase
	for _, problem := range problems {
		problem.Object, problem.Origin = r.object, r.origin
		r.problems = append(r.problems, problem)
	}
	for i, patch := range patches {
		patch.Index = i
		out.Patches = append(out.Patches, r.pools.patches.Canonical(patch))
	}
}

func extended(out *model.EnvoyFilter, usable bool) []Object {
	if !usable || len(out.Patches) == 0 {
		return nil
	}
	return []Object{out}
}

// versionOf changes with a spec. The object's own version would change with each status too.
func versionOf(spec proto.Message) string {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(spec)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

// extensionTargets are the references of a TrafficExtension. It has no single one.
type extensionTargets struct{ *extensions.TrafficExtension }

func (extensionTargets) GetTargetRef() *typev1beta1.PolicyTargetReference { return nil }
