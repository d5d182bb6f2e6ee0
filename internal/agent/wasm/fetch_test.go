package wasm

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

// changedRegistry is a registry without users, whose blobs a test may answer.
type changedRegistry struct {
	*httptest.Server
	host  string
	blobs atomic.Pointer[http.HandlerFunc]
}

func newChangedRegistry(t *testing.T, start func(http.Handler) *httptest.Server) *changedRegistry {
	r := &changedRegistry{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.Server = start(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if blobs := r.blobs.Load(); blobs != nil && strings.Contains(q.URL.Path, "/blobs/") {
			(*blobs)(w, q)
			return
		}
		inner.ServeHTTP(w, q)
	}))
	t.Cleanup(r.Close)
	r.host = r.URL[strings.Index(r.URL, "//")+2:]
	return r
}

// push pushes an image with one layer, and returns its reference.
func (r *changedRegistry) push(t *testing.T, layer mutate.Addendum) string {
	of, err := mutate.Append(empty.Image, layer)
	require.NoError(t, err)
	ref, err := name.ParseReference(r.host+"/plugin:v1", name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, of, remote.WithTransport(r.Client().Transport)))
	return "oci://" + r.host + "/plugin:v1"
}

func (r *changedRegistry) answer(by http.HandlerFunc) { r.blobs.Store(&by) }

// stored is an archive without compression: one of a file of the same size has the same size.
func stored(t *testing.T, file string, b []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
	require.NoError(t, err)
	_, err = w.Write(tarred(t, file, b))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestAlteredLayersAreRefused(t *testing.T) {
	for kind, c := range map[string]struct {
		media         types.MediaType
		good, altered []byte
		reads         bool
	}{
		"module": {moduleLayer, module("good"), module("evil"), false},
		"archive": {
			types.OCILayer, stored(t, moduleFile, module("good")), stored(t, moduleFile, module("evil")), false,
		},
		"archive with more behind what its size says": {
			types.OCILayer, stored(t, moduleFile, module("good")),
			append(stored(t, moduleFile, module("good")), bytes.Repeat([]byte("evil"), 1<<16)...), true,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			r := newChangedRegistry(t, httptest.NewServer)
			at := r.push(t, mutate.Addendum{Layer: static.NewLayer(c.good, c.media)})
			r.answer(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(c.altered) })
			m := open(t, nil)
			body, err := get(t, m, Request{URL: at})
			if c.reads {
				require.NoError(t, err)
				require.Equal(t, string(module("good")), body)
				return
			}
			require.ErrorContains(t, err, "error verifying sha256 checksum")
			require.Empty(t, m.files)
		})
	}
}

func TestCertificatesAreVerifiedByTheHostThatIsCalled(t *testing.T) {
	quiet := func(s *httptest.Server) *httptest.Server {
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		return s
	}
	secured := func(h http.Handler) *httptest.Server { return quiet(httptest.NewUnstartedServer(h)) }
	var asked atomic.Int64
	other := secured(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(module("a"))
	}))
	t.Cleanup(other.Close)
	redirect := http.RedirectHandler(other.URL, http.StatusTemporaryRedirect).ServeHTTP
	first := secured(http.HandlerFunc(redirect))
	t.Cleanup(first.Close)
	r := newChangedRegistry(t, secured)
	at := r.push(t, mutate.Addendum{Layer: static.NewLayer(module("a"), moduleLayer)})
	r.answer(redirect)
	hostOf := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "https://") }
	one := open(t, func(o *Options) { o.Insecure = []string{hostOf(first), r.host} })
	both := open(t, func(o *Options) { o.Insecure = []string{hostOf(first), r.host, hostOf(other)} })
	for _, url := range []string{first.URL, at} {
		_, err := get(t, one, Request{URL: url})
		var unknown *tls.CertificateVerificationError
		require.ErrorAs(t, err, &unknown, url)
		require.Zero(t, asked.Load())
		_, err = get(t, both, Request{URL: url})
		require.NoError(t, err, url)
		asked.Store(0)
	}
	require.True(t, (&Options{Insecure: []string{"a.test"}}).isInsecure("a.test:443"))
	require.True(t, (&Options{Insecure: []string{"a.test:443"}}).isInsecure("a.test"))
	require.False(t, (&Options{Insecure: []string{"a.test"}}).isInsecure("a.test:5000"))
}

func TestHostsWithoutTLSAreNotAskedForOthers(t *testing.T) {
	var asked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(module("a"))
	}))
	t.Cleanup(other.Close)
	r := newChangedRegistry(t, httptest.NewServer)
	at := r.push(t, mutate.Addendum{Layer: static.NewLayer(module("a"), moduleLayer)})
	r.answer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect).ServeHTTP)
	_, err := get(t, open(t, nil), Request{URL: at})
	require.ErrorContains(t, err, "without TLS")
	require.Zero(t, asked.Load())
}

func TestLayersThatAreElsewhereAreRefused(t *testing.T) {
	elsewhere, asked := server(t, map[string][]byte{"/": module("a")})
	elsewhere = strings.Replace(elsewhere, "127.0.0.1", "localhost", 1) // no address, which the library refuses
	r := newChangedRegistry(t, httptest.NewServer)
	at := r.push(t, mutate.Addendum{
		Layer: static.NewLayer(module("a"), moduleLayer), URLs: []string{elsewhere + "/"},
		MediaType: moduleLayer,
	})
	r.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	_, err := get(t, open(t, func(o *Options) { o.Registries = []string{r.host} }), Request{URL: at})
	require.ErrorContains(t, err, "a layer is at a host that modules may not be fetched from")
	require.Zero(t, asked.Load())
	both := []string{r.host, strings.TrimPrefix(elsewhere, "http://")}
	_, err = get(t, open(t, func(o *Options) { o.Registries, o.Insecure = both, both }), Request{URL: at})
	require.NoError(t, err)
}

func TestErrorsHaveNoMoreThanTheyNeed(t *testing.T) {
	text := strings.Repeat("a\u00e4", 4<<10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !strings.HasPrefix(q.URL.Path, "/v2/") {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 404 "+text+"\r\nConnection: close\r\n\r\n")
				_ = conn.Close()
			}
			return
		}
		if q.URL.Path != "/v2/" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"errors": [{"code": "DENIED", "message": "`+text+`"}]}`)
		}
	}))
	t.Cleanup(s.Close)
	m := open(t, nil)
	_, err := get(t, m, Request{URL: s.URL})
	require.ErrorContains(t, err, "the server answers 404")
	require.NotContains(t, err.Error(), "aä")
	_, err = get(t, m, Request{URL: "oci://" + strings.TrimPrefix(s.URL, "http://") + "/plugin:v1"})
	require.ErrorContains(t, err, "DENIED")
	require.LessOrEqual(t, len(err.Error()), maxError+len("…"))
}

// Some modules are fetched at the same time, and none twice.
func TestFetchesAtTheSameTimeAreBounded(t *testing.T) {
	var now, most, all atomic.Int64
	full := make(chan struct{})
	once := sync.OnceFunc(func() { close(full) })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		all.Add(1)
		n := now.Add(1)
		defer now.Add(-1)
		for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
		}
		if n == maxFetches {
			once()
		}
		select {
		case <-full:
		case <-time.After(10 * time.Second):
		}
		_, _ = w.Write(module(q.URL.Path))
	}))
	t.Cleanup(s.Close)
	m := open(t, nil)
	var waiting sync.WaitGroup
	for i := range 3 * maxFetches {
		for range 2 {
			waiting.Go(func() {
				body, err := get(t, m, Request{URL: s.URL + "/" + string(rune('a'+i))})
				if err != nil || !strings.HasSuffix(body, string(rune('a'+i))) {
					t.Errorf("%q %v", body, err)
				}
			})
		}
	}
	waiting.Wait()
	require.Equal(t, int64(maxFetches), most.Load())
	require.Equal(t, int64(3*maxFetches), all.Load())
}
