package wasm

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// remotePlugin is a plugin whose module is at a URL, in the form of Istio's control plane.
func remotePlugin(url string, policy wasmv3.FailurePolicy, variables map[string]string) *wasmv3.PluginConfig {
	return &wasmv3.PluginConfig{
		Name: "shop.a", FailurePolicy: policy, Vm: &wasmv3.PluginConfig_VmConfig{VmConfig: &wasmv3.VmConfig{
			Runtime: "envoy.wasm.runtime.v8", EnvironmentVariables: &wasmv3.EnvironmentVariables{KeyValues: variables},
			Code: &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Remote{Remote: &corev3.RemoteDataSource{
				HttpUri: &corev3.HttpUri{Uri: url}, Sha256: "nil",
			}}},
		}},
	}
}

func resourceOf(t *testing.T, config proto.Message) []byte {
	packed, err := anypb.New(config)
	require.NoError(t, err)
	out, err := proto.Marshal(&corev3.TypedExtensionConfig{Name: "shop.a", TypedConfig: packed})
	require.NoError(t, err)
	return out
}

// configIn returns the configuration in a resource.
func configIn(t *testing.T, resource []byte) proto.Message {
	f := &corev3.TypedExtensionConfig{}
	require.NoError(t, proto.Unmarshal(resource, f))
	require.Equal(t, "shop.a", f.GetName())
	config, err := f.GetTypedConfig().UnmarshalNew()
	require.NoError(t, err)
	return config
}

func TestFiltersNameTheFilesOfTheirModules(t *testing.T) {
	at, _ := server(t, map[string][]byte{"/": module("a")})
	m := open(t, nil)
	r := NewRewriter(m)
	variables := map[string]string{versionVariable: "1", policyVariable: "Always", "MODE": "strict"}
	plugin := remotePlugin(at+"/", wasmv3.FailurePolicy_FAIL_CLOSED, variables)
	for _, config := range []proto.Message{
		&httpwasmv3.Wasm{Config: plugin}, &networkwasmv3.Wasm{Config: plugin},
	} {
		in := resourceOf(t, config)
		require.True(t, r.Fetches(in))
		out, err := r.Rewrite(t.Context(), in)
		require.NoError(t, err)
		of := configIn(t, out).(interface{ GetConfig() *wasmv3.PluginConfig }).GetConfig()
		require.Equal(t, m.path(hexSum(module("a"))), of.GetVmConfig().GetCode().GetLocal().GetFilename())
		require.Equal(t, map[string]string{"MODE": "strict"}, of.GetVmConfig().GetEnvironmentVariables().GetKeyValues())
		require.False(t, r.Fetches(out), "a file is not fetched")
	}
	require.False(t, r.Fetches(resourceOf(t, &httprbacv3.RBAC{})))
	require.False(t, r.Fetches([]byte("\xff")))
	require.Equal(t, []string{
		`config_conversion_count{result="success"} 2`, `config_conversion_count{result="no_remote_load"} 3`,
		`config_conversion_count{result="unmarshal_failure"} 1`,
	}, counted(t, m, "config_conversion_count"))
}

func TestFiltersWithoutTheirModulesCloseOrOpen(t *testing.T) {
	m := open(t, nil)
	r := NewRewriter(m)
	for policy, opens := range map[wasmv3.FailurePolicy]bool{
		wasmv3.FailurePolicy_FAIL_OPEN: true, wasmv3.FailurePolicy_FAIL_CLOSED: false,
		wasmv3.FailurePolicy_FAIL_RELOAD: false, wasmv3.FailurePolicy_UNSPECIFIED: false,
	} {
		for _, variables := range []map[string]string{
			nil, {secretVariable: ""}, {secretVariable: `{"password": "hidden"}`},
		} {
			plugin := remotePlugin("oci://127.0.0.1:1/plugin:v1", policy, variables)
			out, err := r.Rewrite(t.Context(), resourceOf(t, &httpwasmv3.Wasm{Config: plugin}))
			require.ErrorContains(t, err, "the Wasm module of shop.a")
			require.NotContains(t, err.Error(), "hidden")
			require.Equal(t, opens, configIn(t, out).(*httprbacv3.RBAC).GetRules() == nil)
			require.NotContains(t, string(out), "hidden")

			out, err = r.Rewrite(t.Context(), resourceOf(t, &networkwasmv3.Wasm{Config: plugin}))
			require.Error(t, err)
			config := configIn(t, out).(*networkrbacv3.RBAC)
			require.Equal(t, opens, config.GetRules() == nil)
			require.NoError(t, config.Validate())
		}
	}
	_, err := r.Rewrite(t.Context(), resourceOf(t, &httpwasmv3.Wasm{
		Config: remotePlugin("", wasmv3.FailurePolicy_FAIL_CLOSED, nil),
	}))
	require.ErrorContains(t, err, "does not say where")
	told := strings.Join(counted(t, m, "config_conversion_count"), "\n")
	require.Contains(t, told, `{result="fetch_failure"} 24`)
	require.Contains(t, told, `{result="miss_remote_fetch_hint"} 1`)
}
