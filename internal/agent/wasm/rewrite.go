package wasm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	typedv1 "github.com/cncf/xds/go/udpa/type/v1"
	typedv3 "github.com/cncf/xds/go/xds/type/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/agent/metrics"
)

// Variables of a VM by which the control plane says how its module is fetched. All with the prefix
// are for the agent, and taken out.
const (
	secretVariable  = "ISTIO_META_WASM_IMAGE_PULL_SECRET"
	policyVariable  = "ISTIO_META_WASM_IMAGE_PULL_POLICY"
	versionVariable = "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"
	agentVariables  = "ISTIO_META_"
)

// anyModule is the checksum of a control plane that has none.
const anyModule = "nil"

// defaultTimeout is that of a fetch that the configuration has none for.
const defaultTimeout = 5 * time.Second

// Results of conversions, as Istio's agent counts them.
const (
	converted        = "success"
	noRemoteLoad     = "no_remote_load"
	unmarshalFailure = "unmarshal_failure"
	marshalFailure   = "marshal_failure"
	fetchFailure     = "fetch_failure"
	noFetchHint      = "miss_remote_fetch_hint"
)

// Rewriter has filters name the files of their modules.
type Rewriter struct {
	modules  *Modules
	counts   map[string]*metrics.Counter
	duration *metrics.Histogram
}

// NewRewriter returns a Rewriter.
func NewRewriter(m *Modules) *Rewriter {
	r := &Rewriter{modules: m, counts: map[string]*metrics.Counter{}}
	for _, result := range []string{
		converted, noRemoteLoad, unmarshalFailure, marshalFailure, fetchFailure, noFetchHint,
	} {
		r.counts[result] = m.Metrics.Counter(
			"istio_agent_wasm_config_conversion_count", "Filters whose module was to be put in place, by result.",
			"result", result,
		)
	}
	r.duration = m.Metrics.Histogram(
		"istio_agent_wasm_config_conversion_duration", "How long it took to put modules in place, in milliseconds.",
		1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384,
	)
	return r
}

// Fetches reports whether the resource of a filter, a TypedExtensionConfig, has a module that is to
// be fetched.
func (r *Rewriter) Fetches(resource []byte) bool {
	f, err := read(resource)
	if err != nil {
		r.counts[unmarshalFailure].Inc()
		return false // Envoy says what is wrong with it
	}
	if f == nil {
		r.counts[noRemoteLoad].Inc()
	}
	return f != nil
}

// Rewrite returns the resource of a filter with the file of its module. If that cannot be had, it
// returns a filter in its place that accepts or refuses all, as the filter says, and an error.
func (r *Rewriter) Rewrite(ctx context.Context, resource []byte) ([]byte, error) {
	begin := r.modules.Now()
	defer func() { r.duration.Observe(float64(r.modules.Now().Sub(begin).Milliseconds())) }()
	f, err := read(resource)
	if err != nil || f == nil {
		return resource, nil //nolint:nilerr // Envoy says what is wrong with it
	}
	result, failure := r.place(ctx, f)
	if failure != nil {
		failure = fmt.Errorf("the Wasm module of %s: %w", f.of.GetName(), failure)
		f.config = f.fallback()
	}
	out, err := f.encoded()
	if err != nil {
		result = marshalFailure
	}
	r.counts[result].Inc()
	return out, errors.Join(failure, err)
}

// place puts the module in place. It returns what that is counted as.
func (r *Rewriter) place(ctx context.Context, f *filter) (string, error) {
	vm := f.plugin.GetVmConfig()
	remote := vm.GetCode().GetRemote()
	request := Request{
		URL: remote.GetHttpUri().GetUri(), Checksum: remote.GetSha256(), Resource: f.of.GetName(),
		Timeout: defaultTimeout,
	}
	if request.URL == "" {
		return noFetchHint, errors.New("does not say where it is")
	}
	if request.Checksum == anyModule {
		request.Checksum = ""
	}
	if t := remote.GetHttpUri().GetTimeout(); t.AsDuration() > 0 {
		request.Timeout = t.AsDuration()
	}
	variables := vm.GetEnvironmentVariables().GetKeyValues()
	request.Policy, request.Version = PullPolicy(variables[policyVariable]), variables[versionVariable]
	secret, has := variables[secretVariable]
	if has && secret == "" {
		return fetchFailure, errors.New("the control plane has no pull secret for it")
	}
	if has {
		request.Secret = []byte(secret)
	}
	hide(vm)
	path, err := r.modules.Get(ctx, request)
	if err != nil {
		return fetchFailure, err
	}
	vm.Code = &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{
		Local: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}},
	}}
	return converted, nil
}

// hide takes out what is for the agent alone.
func hide(vm *wasmv3.VmConfig) {
	of := vm.GetEnvironmentVariables()
	for name := range of.GetKeyValues() {
		if strings.HasPrefix(name, agentVariables) {
			delete(of.GetKeyValues(), name)
		}
	}
	if len(of.GetKeyValues()) == 0 && len(of.GetHostEnvKeys()) == 0 {
		vm.EnvironmentVariables = nil
	}
}

// filter is a filter whose module is to be fetched.
type filter struct {
	of            *corev3.TypedExtensionConfig
	config        proto.Message
	plugin        *wasmv3.PluginConfig
	ofConnections bool
}

// read reads a resource; nil for one that has no module to be fetched.
func read(resource []byte) (*filter, error) {
	f := &filter{of: &corev3.TypedExtensionConfig{}}
	if err := proto.Unmarshal(resource, f.of); err != nil {
		return nil, err
	}
	var err error
	typ, body := string(f.of.GetTypedConfig().MessageName()), func(to proto.Message) error {
		return proto.Unmarshal(f.of.GetTypedConfig().GetValue(), to)
	}
	if of, is := asStruct(f.of.GetTypedConfig()); is {
		typ = of.GetTypeUrl()[strings.LastIndexByte(of.GetTypeUrl(), '/')+1:]
		body = func(to proto.Message) error { return fromStruct(of.GetValue(), to) }
	}
	switch typ {
	case nameOf(&httpwasmv3.Wasm{}):
		m := &httpwasmv3.Wasm{}
		err = body(m)
		f.config, f.plugin = m, m.GetConfig()
	case nameOf(&networkwasmv3.Wasm{}):
		m := &networkwasmv3.Wasm{}
		err = body(m)
		f.config, f.plugin, f.ofConnections = m, m.GetConfig(), true
	}
	if err != nil || f.plugin.GetVmConfig().GetCode().GetRemote() == nil {
		return nil, err
	}
	return f, nil
}

func nameOf(m proto.Message) string { return string(m.ProtoReflect().Descriptor().FullName()) }

// typedStruct is a configuration as JSON, in either of the packages that Envoy takes.
type typedStruct interface {
	GetTypeUrl() string
	GetValue() *structpb.Struct
}

func asStruct(config *anypb.Any) (typedStruct, bool) {
	if s := (&typedv1.TypedStruct{}); config.MessageIs(s) && config.UnmarshalTo(s) == nil {
		return s, true
	}
	if s := (&typedv3.TypedStruct{}); config.MessageIs(s) && config.UnmarshalTo(s) == nil {
		return s, true
	}
	return nil, false
}

func fromStruct(in *structpb.Struct, to proto.Message) error {
	text, err := protojson.Marshal(in)
	if err != nil {
		return err
	}
	if protojson.Unmarshal(text, to) != nil {
		return errors.New("the configuration is none of a Wasm filter") // without its values
	}
	return nil
}

// fallback is what stands for the filter without its module.
func (f *filter) fallback() proto.Message {
	isOpen := f.plugin.GetFailurePolicy() == wasmv3.FailurePolicy_FAIL_OPEN ||
		f.plugin.GetFailurePolicy() == wasmv3.FailurePolicy_UNSPECIFIED &&
			f.plugin.GetFailOpen() //nolint:staticcheck // of older control planes
	var rules *rbacv3.RBAC // none accept all
	prefix := "wasm-default-allow"
	if !isOpen {
		rules, prefix = &rbacv3.RBAC{}, "wasm-default-deny"
	}
	if f.ofConnections {
		return &networkrbacv3.RBAC{StatPrefix: prefix, Rules: rules}
	}
	return &httprbacv3.RBAC{RulesStatPrefix: prefix, Rules: rules}
}

func (f *filter) encoded() ([]byte, error) {
	config, err := anypb.New(f.config)
	if err != nil {
		return nil, err
	}
	f.of.TypedConfig = config
	return proto.MarshalOptions{Deterministic: true}.Marshal(f.of)
}
