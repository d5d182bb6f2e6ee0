package keysets

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// issuer serves a set of keys, and paths that misbehave.
func issuer(t *testing.T, secure bool) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	var server *httptest.Server
	text := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) }
	}
	mux.HandleFunc("/keys", text(jwks.None))
	mux.HandleFunc("/missing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	mux.HandleFunc("/page", text("<html>"))
	mux.HandleFunc("/empty", text(`{"keys":[]}`))
	mux.HandleFunc("/symmetric", text(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`))
	mux.HandleFunc("/large", text(strings.Repeat(" ", maxAnswer)+jwks.None))
	for from, to := range map[string]string{
		"/once": "/keys", "/ever": "/ever", "/private": "http://10.0.0.1/keys", "/plain": "http://127.0.0.1:1/keys",
	} {
		mux.Handle(from, http.RedirectHandler(to, http.StatusFound))
	}
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	discovery := func(path string, document func() string) {
		mux.HandleFunc(path+"/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, document())
		})
	}
	discovery("", func() string { return `{"issuer":"x","jwks_uri":"` + server.URL + `/keys"}` })
	discovery("/none", func() string { return "{}" })
	discovery("/text", func() string { return "text" })
	discovery("/downgrade", func() string { return `{"jwks_uri":"http://127.0.0.1:1/keys"}` })
	server = httptest.NewUnstartedServer(mux)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

func fetcher(t *testing.T, o FetcherOptions) *Fetcher {
	o.IsDiscovery = func(uri string) bool { return strings.HasSuffix(uri, "/.well-known/openid-configuration") }
	f := NewFetcher(o)
	t.Cleanup(f.Close)
	return f
}

func TestFetchTakesSetsAndSaysWhyNot(t *testing.T) {
	server := issuer(t, false)
	f := fetcher(t, FetcherOptions{Private: loopback})
	const discovery = "/.well-known/openid-configuration"
	for path, want := range map[string]string{
		"/keys": "", "/once": "", discovery: "",
		"/missing": "answers with status 404",
		"/page": "what is there is no object of JSON: invalid character '<' looking for " +
			"beginning of value",
		"/empty":            "what is there has no key that signatures can be verified with",
		"/symmetric":        "what is there has no key that signatures can be verified with",
		"/large":            "answers with more than 1048576 bytes",
		"/ever":             "redirects more than 5 times",
		"/private":          "is at an address that is not public and not in LATEEN_JWKS_PRIVATE_NETWORKS",
		"/none" + discovery: "what is there has no jwks_uri that is an address",
		"/text" + discovery: "what is there is no object of JSON",
	} {
		keys, err := f.Fetch(t.Context(), server.URL+path)
		if want == "" {
			require.NoError(t, err, path)
			require.Equal(t, jwks.None, keys, path)
			continue
		}
		require.EqualError(t, err, want, path)
		if path == "/private" {
			require.ErrorContains(t, causeOf(err), "10.0.0.1", "the log names the address")
		}
	}
}

func TestFetchEndsInTime(t *testing.T) {
	server := issuer(t, false)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := fetcher(t, FetcherOptions{Private: loopback}).Fetch(ctx, server.URL+"/silent")
	require.EqualError(t, err, "does not answer in time")
}

func TestFetchChecksTLSAndDoesNotLeaveIt(t *testing.T) {
	server := issuer(t, true)
	_, err := fetcher(t, FetcherOptions{Private: loopback}).Fetch(t.Context(), server.URL+"/keys")
	require.EqualError(t, err, "has a certificate that is not trusted")

	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	f := fetcher(t, FetcherOptions{Private: loopback, TLS: &tls.Config{RootCAs: roots}})
	_, err = f.Fetch(t.Context(), server.URL+"/keys")
	require.NoError(t, err)
	_, err = f.Fetch(t.Context(), server.URL+"/plain")
	require.EqualError(t, err, "redirects to an address without TLS")
	_, err = f.Fetch(t.Context(), server.URL+"/downgrade/.well-known/openid-configuration")
	require.EqualError(t, err, "what is there has a jwks_uri without TLS")
}

func TestFetchNamesWhatCannotBeReached(t *testing.T) {
	f := fetcher(t, FetcherOptions{Private: loopback})
	_, err := f.Fetch(t.Context(), "http://127.0.0.1:1/keys")
	require.EqualError(t, err, "refuses connections")
	_, err = f.Fetch(t.Context(), "http://nowhere.invalid/keys")
	require.EqualError(t, err, `is at host "nowhere.invalid", which has no address`)
}

func TestOnlyPublicAddressesAreCalled(t *testing.T) {
	none, some := addresses{}, addresses{private: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	for _, at := range []string{
		"10.0.0.1", "172.16.0.1", "192.168.0.1", "127.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
		"255.255.255.255", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
		"::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "168.63.129.16", "10.1.2.3",
	} {
		hostPort := net.JoinHostPort(at, "443")
		require.Error(t, none.check(hostPort), at)
		require.Equal(t, at == "10.1.2.3", some.check(hostPort) == nil, at)
	}
	for _, at := range []string{"8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"} {
		require.NoError(t, none.check(net.JoinHostPort(at, "443")), at)
	}
	require.Error(t, none.check("nowhere:443"))
	blocked := addresses{private: some.private, blocked: []netip.Prefix{
		netip.MustParsePrefix("10.1.2.0/24"), netip.MustParsePrefix("8.0.0.0/8"),
	}}
	require.Equal(t, errBlocked, blocked.check("10.1.2.3:443"), "though it is allowed otherwise")
	require.Equal(t, errBlocked, blocked.check("[::ffff:8.8.8.8]:443"))
	require.NoError(t, blocked.check("10.1.3.3:443"))
}
