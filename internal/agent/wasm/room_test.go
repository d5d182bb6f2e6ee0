package wasm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"github.com/stretchr/testify/require"
)

// given has Envoy get the filter of a module, whose file it returns.
func given(t *testing.T, r *Rewriter, url string) string {
	plugin := remotePlugin(url, wasmv3.FailurePolicy_FAIL_CLOSED, nil)
	out, err := r.Rewrite(t.Context(), resourceOf(t, &httpwasmv3.Wasm{Config: plugin}))
	require.NoError(t, err)
	r.Given(out)
	return configIn(t, out).(*httpwasmv3.Wasm).GetConfig().GetVmConfig().GetCode().GetLocal().GetFilename()
}

func TestModulesOfFiltersInForceStay(t *testing.T) {
	at, _ := server(t, map[string][]byte{"/a": module("a"), "/b": module("b"), "/c": module("c")})
	now := time.Now()
	m := open(t, func(o *Options) { o.Now = func() time.Time { return now } })
	r := NewRewriter(m)
	calm := func() { now = now.Add(2 * time.Hour); m.purge() }
	a := given(t, r, at+"/a")
	_, err := get(t, m, Request{URL: at + "/c"})
	require.NoError(t, err)
	calm()
	require.FileExists(t, a)
	require.Len(t, m.files, 1, "nobody has asked for the other one")

	b := given(t, r, at+"/b")
	require.FileExists(t, a, "Envoy may refuse what takes its place")
	calm()
	require.NoFileExists(t, a)
	require.FileExists(t, b)

	// One that starts with its last configuration names the file that is kept.
	again, err := Open(m.Options)
	require.NoError(t, err)
	r, m = NewRewriter(again), again
	r.Given(resourceOf(t, &httpwasmv3.Wasm{Config: filePlugin(b)}))
	calm()
	require.FileExists(t, b)
	r.Gone("shop.a")
	calm()
	require.NoFileExists(t, b)
	r.Given(resourceOf(t, &httpwasmv3.Wasm{Config: filePlugin("/etc/other.wasm")}))
	require.Empty(t, m.inForce, "it is not one of these")
}

func filePlugin(path string) *wasmv3.PluginConfig {
	plugin := remotePlugin("", wasmv3.FailurePolicy_FAIL_CLOSED, nil)
	plugin.GetVmConfig().Code = &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{
		Local: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}},
	}}
	return plugin
}

func TestModulesInUseAreNotRemovedForOthers(t *testing.T) {
	files := map[string][]byte{}
	for i := range 6 {
		files[fmt.Sprintf("/%d", i)] = module(strings.Repeat(fmt.Sprint(i), 60_000))
	}
	at, _ := server(t, files)
	now := time.Now()
	m := open(t, func(o *Options) { o.Now = func() time.Time { return now } })
	for i := range 6 {
		path, err := m.Get(t.Context(), Request{URL: fmt.Sprintf("%s/%d", at, i), Timeout: time.Minute})
		if i < 4 {
			require.NoError(t, err)
			if i < 3 {
				m.use(fmt.Sprint(i), path)
			}
		}
		if i == 4 {
			require.NoError(t, err, "what is not in use goes")
			require.NoFileExists(t, m.path(hexSum(files["/3"])))
			m.use("4", path)
		}
		if i == 5 {
			require.ErrorContains(t, err, "ISTIO_WASM_MAX_BINARY_SIZE_BYTES")
		}
		now = now.Add(time.Minute)
	}
	for _, i := range []string{"/0", "/1", "/2", "/4"} {
		require.FileExists(t, m.path(hexSum(files[i])))
	}
}

func TestFilesThatAreNotWhollyWrittenAreRemoved(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "new-1"), module("a"), 0o600))
	m := open(t, func(o *Options) { o.Dir = dir })
	require.NoFileExists(t, filepath.Join(dir, "new-1"))
	require.Equal(t, uint64(1), m.counts.unfinished.Value())
}
