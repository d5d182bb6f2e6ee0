package features

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// keyServer is an issuer that serves its keys.
type keyServer struct {
	*httptest.Server
	mu    sync.Mutex
	keys  string // empty: it answers with 503
	calls map[string]int
}

func newKeyServer(t *testing.T) *keyServer {
	k := &keyServer{calls: map[string]int{}}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.calls[r.URL.Path]++
		switch {
		case k.keys == "":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/.well-known/openid-configuration":
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, k.URL, k.URL+"/discovered")
		default:
			_, _ = fmt.Fprint(w, k.keys)
		}
	}))
	t.Cleanup(k.Close)
	return k
}

func (k *keyServer) serve(keys string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys = keys
}

func (k *keyServer) count(path string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.calls[path]
}

func keyMesh(t *testing.T, o livemesh.Options, policies ...any) *livemesh.Mesh {
	t.Helper()
	parts := []any{livemesh.NewEcho("client", "v1")}
	for _, app := range []string{"web", "api", "found"} {
		parts = append(parts, livemesh.NewEcho(app, "v1"), livemesh.Service(app, "http:80:8080"))
	}
	return livemesh.StartWith(t, o, livemesh.File("mesh.yaml", parts...)+livemesh.File("policies.yaml", policies...))
}

var ofThisMachine = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// TestKeysAreFetchedForTheMesh lets an issuer come late, serve, replace its keys, and go.
func TestKeysAreFetchedForTheMesh(t *testing.T) {
	issuer := newKeyServer(t)
	first, second := newSigner(t, issuer.URL), newSigner(t, issuer.URL)
	second.id = "the second key"
	byURI := fmt.Sprintf("{issuer: %q, jwksUri: %q}", issuer.URL, issuer.URL+"/keys")
	m := keyMesh(t, livemesh.Options{KeyNetworks: ofThisMachine, KeyRefresh: 200 * time.Millisecond},
		authentication("web", "web", byURI), authentication("api", "api", byURI),
		authentication("found", "found", fmt.Sprintf("{issuer: %q}", issuer.URL)))
	status := func(app string, options ...livemesh.Option) int {
		return m.Client("client-v1").Get("http://"+app+"/", options...).Status
	}
	accepted := func(s *signer) func() bool {
		token := s.token()
		return func() bool {
			return status("web", bearer(token)) == 200 && status("api", bearer(token)) == 200 &&
				status("found", bearer(token)) == 200
		}
	}

	m.AwaitProblem("RequestAuthentication default/web", issuer.URL+"/keys", "answers with status 503")
	m.AwaitProblem("RequestAuthentication default/found", "answers with status 503")
	assert.Equal(t, 401, status("web", bearer(first.token())))
	assert.Equal(t, 200, status("web"), "a request without a token needs no keys")

	issuer.serve(first.keys())
	m.Await("tokens are accepted", accepted(first))
	m.Await("nothing is wrong any more", func() bool { return len(m.Problems()) == 0 })
	assert.Equal(t, 401, status("web", bearer(second.token())))
	require.NotZero(t, issuer.count("/discovered"))

	issuer.serve(second.keys())
	m.Await("tokens with the new key are accepted", accepted(second))
	m.Await("tokens with the old key are not", func() bool { return status("web", bearer(first.token())) == 401 })

	issuer.serve("")
	failed := issuer.count("/keys")
	m.Await("the issuer has been asked again", func() bool { return issuer.count("/keys") > failed+1 })
	assert.True(t, accepted(second)(), "keys of before stay in use")
	assert.Empty(t, m.Problems())
}

func TestKeysAreFetchedOnceForAllPolicies(t *testing.T) {
	issuer := newKeyServer(t)
	s := newSigner(t, issuer.URL)
	issuer.serve(s.keys())
	byURI := fmt.Sprintf("{issuer: %q, jwksUri: %q}", issuer.URL, issuer.URL+"/keys")
	m := keyMesh(t, livemesh.Options{KeyNetworks: ofThisMachine},
		authentication("web", "web", byURI), authentication("api", "api", byURI, byURI))
	for _, app := range []string{"web", "api"} {
		m.Await("tokens are accepted", func() bool {
			return m.Client("client-v1").Get("http://"+app+"/", bearer(s.token())).Status == 200
		})
	}
	require.Equal(t, 1, issuer.count("/keys"))
	require.Equal(t, 1.0, m.Metric("pilot_jwks_resolver_network_fetch_success_total", nil))
}

func TestKeysAreNotFetchedFromAddressesThatAreNotPublic(t *testing.T) {
	issuer := newKeyServer(t)
	s := newSigner(t, issuer.URL)
	issuer.serve(s.keys())
	m := keyMesh(t, livemesh.Options{},
		authentication("web", "web", fmt.Sprintf("{issuer: %q, jwksUri: %q}", issuer.URL, issuer.URL+"/keys")))
	m.AwaitProblem("RequestAuthentication default/web", "127.0.0.1", "LATEEN_JWKS_PRIVATE_NETWORKS")
	require.Equal(t, 401, m.Client("client-v1").Get("http://web/", bearer(s.token())).Status)
	require.Equal(t, 200, m.Client("client-v1").Get("http://web/").Status)
	require.Zero(t, issuer.count("/keys"))
}
