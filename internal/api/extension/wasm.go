package extension

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/lateen-mesh/lateen/internal/api/envoyfilter"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Variables of the VM by which Istio's control plane tells agents how to fetch a module. They take
// them out again.
const (
	policyVariable  = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
	versionVariable = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"

	agentVariables = "ISTIO_META_"
)

const (
	runtime = "envoy.wasm.runtime.v8"
	// noCluster is no cluster: agents fetch modules. An Envoy without one cannot, and fails as the
	// plugin says.
	noCluster = "_"
	// anyModule stands for no checksum, as in Istio: Envoy wants one.
	anyModule = "nil"
	// fetchSeconds is how long a fetch may take, as in Istio.
	fetchSeconds = 30
	maxName      = 256
	maxVariables = 256
	maxVariable  = 2048
)

// wasm reads a module and how it is run.
func (r *reader) wasm(p *model.ConfigPatch) {
	in := r.Wasm
	p.Fallback = model.FallbackDeny
	if r.isOpen() {
		p.Fallback = model.FallbackAllow
	}
	if in.GetType() == extensions.PluginType_NETWORK {
		p.Target = model.PatchNetworkFilter
	}
	plugin := &wasmv3.PluginConfig{
		Name: r.id(), RootId: in.GetPluginName(), FailurePolicy: policies()[in.GetFailStrategy()],
		Configuration: r.configuration(in.GetPluginConfig()),
	}
	if len(in.GetPluginName()) > maxName {
		r.fail(".pluginName", "", "is too long", fmt.Sprintf("at most %d bytes", maxName))
	}
	code := r.module()
	plugin.Vm = &wasmv3.PluginConfig_VmConfig{VmConfig: &wasmv3.VmConfig{
		Runtime: runtime, Code: code, EnvironmentVariables: r.variables(code.GetRemote() != nil),
	}}
	switch {
	case r.failed:
		r.refuse(p)
	case p.Target == model.PatchNetworkFilter:
		r.configure(p, &networkwasmv3.Wasm{Config: plugin})
	default:
		r.configure(p, &httpwasmv3.Wasm{Config: plugin})
	}
}

func policies() map[extensions.FailStrategy]wasmv3.FailurePolicy {
	return map[extensions.FailStrategy]wasmv3.FailurePolicy{
		extensions.FailStrategy_FAIL_CLOSE:  wasmv3.FailurePolicy_FAIL_CLOSED,
		extensions.FailStrategy_FAIL_OPEN:   wasmv3.FailurePolicy_FAIL_OPEN,
		extensions.FailStrategy_FAIL_RELOAD: wasmv3.FailurePolicy_FAIL_RELOAD,
	}
}

// refuse has a filter that refuses all stand for one with a mistake, or none if traffic is to pass.
func (r *reader) refuse(p *model.ConfigPatch) {
	if !r.isOpen() {
		r.configure(p, envoyfilter.RefuseAll(p.Target))
	}
}

// configuration returns the plugin's configuration: JSON as text, as in Istio.
func (r *reader) configuration(in *structpb.Struct) *anypb.Any {
	if len(in.GetFields()) == 0 {
		return nil
	}
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	err := to.Encode(in.AsMap())
	var out *anypb.Any
	if err == nil {
		out, err = envoyfilter.Packed(wrapperspb.String(strings.TrimSuffix(text.String(), "\n")))
	}
	if err != nil {
		r.fail(".pluginConfig", "", "cannot be encoded as JSON", "an object of JSON")
	}
	return out
}

// module reads where the module is.
func (r *reader) module() *corev3.AsyncDataSource {
	text := r.Wasm.GetUrl()
	if !strings.Contains(text, "://") {
		text = "oci://" + text
	}
	u, err := url.Parse(text)
	const want = "oci://, http:// or https:// and where the module is, or file:// and its path"
	switch {
	case r.Wasm.GetUrl() == "":
		r.fail(".url", "", "is empty", want)
	case err != nil:
		r.fail(".url", "", "is no URL", want)
	case u.User != nil:
		r.fail(".url", "", "has a user or password, which all that read the object would see", "a URL without")
	case u.Scheme == "file":
		return r.file(strings.TrimPrefix(text, "file://"))
	case u.Scheme != "oci" && u.Scheme != "http" && u.Scheme != "https":
		r.fail(".url", r.Wasm.GetUrl(), "has a scheme that no module is fetched by", want)
	case u.Host == "":
		r.fail(".url", r.Wasm.GetUrl(), "has no host", want)
	}
	return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Remote{Remote: &corev3.RemoteDataSource{
		HttpUri: &corev3.HttpUri{
			Uri: text, Timeout: durationpb.New(fetchSeconds * 1e9),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: noCluster},
		},
		Sha256: r.checksum(text),
	}}}
}

// checksum reads the checksum of the module or image.
func (r *reader) checksum(at string) string {
	sum := r.Wasm.GetSha256()
	if sum == "" {
		return anyModule
	}
	if !regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(sum) {
		r.fail(".sha256", sum, "is no checksum", "64 hexadecimal digits in lower case")
	}
	if _, digest, has := strings.Cut(at, "@sha256:"); has && digest != sum {
		r.fail(".sha256", sum, "is not the digest of the URL", digest)
	}
	return sum
}

// file reads the path of a module in the proxy's container.
func (r *reader) file(path string) *corev3.AsyncDataSource {
	if !strings.HasPrefix(path, "/") {
		r.fail(".url", r.Wasm.GetUrl(), "has no path", "file:// and a path from the root, as file:///opt/plugin.wasm")
	}
	if r.Wasm.GetSha256() != "" {
		r.fail(".sha256", r.Wasm.GetSha256(), "cannot be verified: the proxy reads the file itself",
			"no sha256, or a module that is fetched")
	}
	if r.Wasm.GetImagePullSecret() != "" || r.Wasm.GetImagePullPolicy() != 0 {
		r.warn(r.Path+".url", r.Wasm.GetUrl(), "is a file: neither imagePullSecret nor imagePullPolicy has an effect",
			"oci:// for a module of a registry")
	}
	return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{Local: &corev3.DataSource{
		Specifier: &corev3.DataSource_Filename{Filename: path},
	}}}
}

// variables reads the environment of the VM. Of a module that is fetched it has what agents read.
func (r *reader) variables(fetched bool) *wasmv3.EnvironmentVariables {
	in := r.Wasm.GetVmConfig().GetEnv()
	out := &wasmv3.EnvironmentVariables{KeyValues: map[string]string{}}
	if len(in) > maxVariables {
		r.fail(".vmConfig.env", "", fmt.Sprintf("has %d entries", len(in)), fmt.Sprintf("at most %d", maxVariables))
	}
	seen := map[string]bool{}
	for i, v := range in {
		at := fmt.Sprintf(".vmConfig.env[%d]", i)
		name := v.GetName()
		switch {
		case len(name) > maxName || !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name):
			r.fail(at+".name", name, "is no name of a variable", "letters, digits and underscores, no digit first")
		case strings.HasPrefix(name, agentVariables):
			r.fail(at+".name", name, "is a variable by which agents are told how to fetch the module", "another name")
		case seen[name]:
			r.fail(at+".name", name, "stands there twice", "each variable once")
		case len(v.GetValue()) > maxVariable:
			r.fail(at+".value", "", "is too long", fmt.Sprintf("at most %d bytes", maxVariable))
		case v.GetValueFrom() == extensions.EnvValueSource_HOST && v.GetValue() != "":
			r.fail(at+".value", "", "stands beside valueFrom: HOST", "a value or HOST")
		case v.GetValueFrom() == extensions.EnvValueSource_HOST:
			out.HostEnvKeys = append(out.HostEnvKeys, name)
		default:
			out.KeyValues[name] = v.GetValue()
		}
		seen[name] = true
	}
	if fetched {
		r.fetching(out.GetKeyValues())
	}
	if len(out.GetKeyValues()) == 0 && len(out.GetHostEnvKeys()) == 0 {
		return nil
	}
	return out
}

// fetching adds what agents read.
func (r *reader) fetching(to map[string]string) {
	to[versionVariable] = r.Version
	if p := r.Wasm.GetImagePullPolicy(); p != extensions.PullPolicy_UNSPECIFIED_POLICY {
		to[policyVariable] = p.String()
	}
	if secret := r.Wasm.GetImagePullSecret(); secret != "" {
		r.fail(".imagePullSecret", secret, "is not read: the control plane hands no pull secret to proxies",
			"a registry that agents may read without, or credentials in a file of the proxy (DOCKER_CONFIG)")
	}
}
