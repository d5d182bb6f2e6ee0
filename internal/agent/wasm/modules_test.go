package wasm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	registryv1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/agent/metrics"
)

// module is the smallest module, with a comment so that others differ.
func module(comment string) []byte { return append([]byte("\x00asm\x01\x00\x00\x00"), comment...) }

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func gzipped(t *testing.T, b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func tarred(t *testing.T, file string, b []byte) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: file, Size: int64(len(b)), Mode: 0o600}))
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func open(t *testing.T, change func(*Options)) *Modules {
	o := Options{
		Dir: t.TempDir(), MaxBytes: 1 << 16, Expiry: time.Hour, PurgeInterval: time.Hour, Timeout: time.Minute,
		Attempts: 1, Private: prefixes("127.0.0.0/8", "::1/128"), Metrics: &metrics.Registry{},
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	if change != nil {
		change(&o)
	}
	m, err := Open(o)
	require.NoError(t, err)
	return m
}

func get(t *testing.T, m *Modules, r Request) (string, error) {
	r.Timeout = time.Minute
	path, err := m.Get(t.Context(), r)
	if err != nil {
		return "", err
	}
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(body), nil
}

// counted returns the lines of a metric that are not 0.
func counted(t *testing.T, m *Modules, of string) (lines []string) {
	var b strings.Builder
	require.NoError(t, m.Metrics.Write(&b))
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "istio_agent_wasm_"+of) && !strings.HasSuffix(line, " 0") {
			lines = append(lines, strings.TrimPrefix(line, "istio_agent_wasm_"))
		}
	}
	return lines
}

// server serves files over HTTP, and counts requests.
func server(t *testing.T, files map[string][]byte) (url string, asked *atomic.Int64) {
	asked = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, has := files[r.URL.Path]
		if !has {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func TestModulesComeByHTTP(t *testing.T) {
	plain := module("plain")
	at, asked := server(t, map[string][]byte{
		"/plain": plain, "/gzip": gzipped(t, plain), "/tar": gzipped(t, tarred(t, "a.wasm", plain)),
		"/text": []byte("no module at all"), "/large": module(strings.Repeat("a", 1<<16)),
		"/bomb": gzipped(t, module(strings.Repeat("a", 1<<20))),
	})
	m := open(t, nil)
	for _, path := range []string{"/plain", "/gzip", "/tar"} {
		body, err := get(t, m, Request{URL: at + path, Checksum: hexSum(plain)})
		require.NoError(t, err, path)
		require.Equal(t, string(plain), body)
	}
	require.Equal(t, int64(3), asked.Load())
	_, err := get(t, m, Request{URL: at + "/plain", Checksum: hexSum(plain)})
	require.NoError(t, err)
	require.Equal(t, int64(3), asked.Load(), "it is on disk")
	for path, want := range map[string]string{
		"/text": "no Wasm module", "/large": "ISTIO_WASM_MAX_BINARY_SIZE_BYTES",
		"/bomb": "ISTIO_WASM_MAX_BINARY_SIZE_BYTES", "/none": "404",
	} {
		_, err := get(t, m, Request{URL: at + path})
		require.ErrorContains(t, err, want, path)
	}
	_, err = get(t, m, Request{URL: at + "/plain", Checksum: hexSum(nil)})
	require.ErrorContains(t, err, "checksum")
	require.Equal(t, []string{
		`remote_fetch_count{result="success"} 3`, `remote_fetch_count{result="download_failure"} 3`,
		`remote_fetch_count{result="checksum_mismatched"} 1`, `remote_fetch_count{result="fetch_failure"} 1`,
	}, counted(t, m, "remote"))
	require.Equal(t, []string{
		"cache_entries 1", `cache_lookup_count{hit="true"} 1`, `cache_lookup_count{hit="false"} 8`,
	}, counted(t, m, "cache"))
}

func TestFetchesAreRetried(t *testing.T) {
	left := atomic.Int64{}
	left.Store(2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if left.Add(-1) >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(module("a"))
	}))
	t.Cleanup(s.Close)
	_, err := get(t, open(t, nil), Request{URL: s.URL})
	require.ErrorContains(t, err, "503")
	_, err = get(t, open(t, func(o *Options) { o.Attempts = 2 }), Request{URL: s.URL})
	require.NoError(t, err)
}

func TestNoModuleIsFetchedFromAddressesThatAreNotPublic(t *testing.T) {
	o := Options{}
	for _, address := range []string{
		"127.0.0.1:80", "10.1.2.3:80", "192.168.0.1:443", "[::1]:80", "[fd00::1]:80", "169.254.169.254:80",
		"[fe80::1]:80", "0.0.0.0:80", "100.64.0.1:80", "[::ffff:10.0.0.1]:80", "[64:ff9b::7f00:1]:80",
		"168.63.129.16:80",
	} {
		require.Error(t, o.check(address), address)
	}
	require.NoError(t, o.check("93.184.216.34:443"))
	o.Private = prefixes("10.0.0.0/8", "169.254.0.0/16", "fd00::/8", "168.63.129.16/32")
	require.NoError(t, o.check("10.1.2.3:80"))
	require.NoError(t, o.check("[fd00::1]:80"))
	for _, address := range []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "168.63.129.16:80"} {
		require.Error(t, o.check(address), "%s: whatever is named", address)
	}
	o.Blocked = prefixes("10.1.0.0/16", "93.184.216.0/24")
	require.Error(t, o.check("10.1.2.3:80"))
	require.Error(t, o.check("93.184.216.34:443"))
}

func TestRedirectsToAddressesThatAreNotPublicAreRefused(t *testing.T) {
	inside, asked := server(t, map[string][]byte{"/": module("a")})
	u, err := url.Parse(inside)
	require.NoError(t, err)
	outside := httptest.NewServer(http.RedirectHandler("http://127.0.0.2:"+u.Port()+"/", http.StatusFound))
	t.Cleanup(outside.Close)
	one := func(o *Options) { o.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} }
	_, err = get(t, open(t, one), Request{URL: outside.URL})
	require.ErrorContains(t, err, "127.0.0.2 is no public address")
	require.Zero(t, asked.Load())

	named := httptest.NewServer(http.RedirectHandler("http://localhost:"+u.Port()+"/", http.StatusFound))
	t.Cleanup(named.Close)
	_, err = get(t, open(t, func(o *Options) {
		o.Registries = []string{strings.TrimPrefix(named.URL, "http://")}
	}), Request{URL: named.URL})
	require.ErrorContains(t, err, "a host that modules may not be fetched from")
	_, err = get(t, open(t, func(o *Options) { o.Registries = []string{"a.test"} }), Request{URL: inside})
	require.ErrorContains(t, err, "a host that modules may not be fetched from")
}

// registryOf is a registry that wants a user, and the names of images in it.
type registryOf struct {
	t    *testing.T
	host string
}

func newRegistry(t *testing.T) registryOf {
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "puller" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return registryOf{t, strings.TrimPrefix(s.URL, "http://")}
}

// push pushes an image of layers, and returns its URL and digest.
func (r registryOf) push(image string, manifest types.MediaType, layers ...registryv1.Layer) (at, digest string) {
	ref, err := name.ParseReference(r.host + "/" + image)
	require.NoError(r.t, err)
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, manifest), layers...)
	require.NoError(r.t, err)
	require.NoError(r.t, remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: "puller", Password: "secret"})))
	d, err := img.Digest()
	require.NoError(r.t, err)
	return "oci://" + r.host + "/" + image, d.Hex
}

func (r registryOf) secret() []byte {
	return fmt.Appendf(nil, `{"auths": {%q: {"username": "puller", "password": "secret"}}}`, r.host)
}

func TestModulesComeFromRegistries(t *testing.T) {
	r := newRegistry(t)
	m := open(t, nil)
	plain := module("plain")
	archive := gzipped(t, tarred(t, "./plugin.wasm", plain))
	for image, layer := range map[string]registryv1.Layer{
		"docker":   static.NewLayer(archive, types.DockerLayer),
		"standard": static.NewLayer(archive, types.OCILayer),
		"artifact": static.NewLayer(plain, moduleLayer),
	} {
		manifest := types.OCIManifestSchema1
		if image == "docker" {
			manifest = types.DockerManifestSchema2
		}
		at, digest := r.push("plugins/"+image+":v1", manifest, layer)
		for _, of := range []Request{
			{URL: at}, {URL: at, Checksum: digest}, {URL: strings.TrimSuffix(at, ":v1") + "@sha256:" + digest},
		} {
			of.Secret = r.secret()
			body, err := get(t, m, of)
			require.NoError(t, err, image)
			require.Equal(t, string(plain), body)
		}
		_, err := get(t, m, Request{URL: at, Checksum: hexSum(nil), Secret: r.secret()})
		require.ErrorContains(t, err, "digest")
	}
}

func TestRegistriesAreAskedWithThePullSecretAlone(t *testing.T) {
	r := newRegistry(t)
	m := open(t, nil)
	at, _ := r.push("plugin:v1", types.OCIManifestSchema1, static.NewLayer(module("a"), moduleLayer))
	for _, secret := range [][]byte{nil, []byte("{}"), []byte(`{"auths": {"a.test": {"username": "puller"}}}`)} {
		_, err := get(t, m, Request{URL: at, Secret: secret})
		require.ErrorContains(t, err, "401", "%s", secret)
	}
	for _, secret := range []string{"", "null pointer"} {
		_, err := get(t, m, Request{URL: at, Secret: []byte(secret)})
		require.ErrorContains(t, err, "pull secret")
	}
	_, err := get(t, m, Request{URL: at, Secret: []byte(`{"credHelpers": {"` + r.host + `": "x"}, "credsStore": "x"}`)})
	require.ErrorContains(t, err, "401", "no program is asked for credentials")
	require.Equal(t, []string{`remote_fetch_count{result="manifest_failure"} 6`}, counted(t, m, "remote"))
}

func TestImagesWithoutAModuleAreRefused(t *testing.T) {
	r := newRegistry(t)
	m := open(t, nil)
	archive := gzipped(t, tarred(t, "plugin.wasm", module(strings.Repeat("a", 1<<17))))
	for image, layers := range map[string][]registryv1.Layer{
		"has no layer":     nil,
		"has no file":      {static.NewLayer(gzipped(t, tarred(t, "other.wasm", module("a"))), types.OCILayer)},
		"is of type":       {static.NewLayer(module("a"), "text/plain")},
		"is no Wasm":       {static.NewLayer([]byte("text"), moduleLayer)},
		"has more bytes":   {static.NewLayer(module(strings.Repeat("a", 1<<16)), moduleLayer)},
		"invalid header":   {static.NewLayer([]byte("no archive"), types.OCILayer)},
		"has more bytes t": {static.NewLayer(archive, types.OCILayer)},
	} {
		at, _ := r.push(strings.ReplaceAll(strings.ToLower(image), " ", "-")+":v1", types.OCIManifestSchema1, layers...)
		_, err := get(t, m, Request{URL: at, Secret: r.secret()})
		require.ErrorContains(t, err, strings.TrimSuffix(image, " t"))
	}
}

// A tag is asked for again as its pull policy says, when the object has changed.
func TestTagsAreFetchedAgainAsThePolicySays(t *testing.T) {
	for _, c := range []struct {
		tag    string
		policy PullPolicy
		again  bool
	}{
		{":latest", "", true}, {"", "", true}, {":v1", "", false}, {":v1", Always, true},
		{":latest", IfNotPresent, false},
	} {
		t.Run(c.tag+" "+string(c.policy), func(t *testing.T) {
			r := newRegistry(t)
			m := open(t, nil)
			of := func(version string) string {
				body, err := get(t, m, Request{
					URL: "oci://" + r.host + "/plugin" + c.tag, Policy: c.policy, Resource: "a", Version: version,
					Secret: r.secret(),
				})
				require.NoError(t, err)
				return strings.TrimPrefix(body, string(module("")))
			}
			r.push("plugin"+c.tag, types.OCIManifestSchema1, static.NewLayer(module("old"), moduleLayer))
			require.Equal(t, "old", of("1"))
			r.push("plugin"+c.tag, types.OCIManifestSchema1, static.NewLayer(module("new"), moduleLayer))
			require.Equal(t, "old", of("1"))
			want := "old"
			if c.again {
				want = "new"
			}
			require.Equal(t, want, of("2"))
		})
	}
}

func TestFilesAreBounded(t *testing.T) {
	files := map[string][]byte{}
	for i := range 6 {
		files[fmt.Sprintf("/%d", i)] = module(strings.Repeat(fmt.Sprint(i), 60_000))
	}
	at, asked := server(t, files)
	now := time.Now()
	m := open(t, func(o *Options) { o.Now = func() time.Time { return now } })
	for i := range 6 {
		_, err := get(t, m, Request{URL: fmt.Sprintf("%s/%d", at, i)})
		require.NoError(t, err)
		now = now.Add(time.Minute)
	}
	require.Len(t, m.files, 4)
	_, err := get(t, m, Request{URL: at + "/0"})
	require.NoError(t, err)
	require.Equal(t, int64(7), asked.Load(), "the oldest has gone")

	again, err := Open(m.Options)
	require.NoError(t, err)
	require.Len(t, again.files, 4, "those of an earlier process are known")
	now = now.Add(2 * time.Hour)
	m.purge()
	require.Empty(t, m.files)
	left, err := os.ReadDir(m.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
