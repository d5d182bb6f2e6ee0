package command

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMistakesInTheCommandLineAreTold(t *testing.T) {
	for line, says := range map[string]string{
		"":                             "no command",
		"iptables":                     `command "iptables" does not exist`,
		"istio-iptables -p http":       `--envoy-port (-p) = "http"; want a port`,
		"wait --timeoutSeconds=x":      "timeoutSeconds",
		"wait --periodMillis=0":        "times have to be above 0",
		"request GET":                  "want METHOD PATH",
		"request --debug-port=x GET /": "debug-port",
		"request --later=1 GET /":      "later",
	} {
		err := run(context.Background(), strings.Fields(line), &bytes.Buffer{})
		require.ErrorIs(t, err, errUsage, line)
		require.ErrorContains(t, err, says, line)
	}
}

func TestWaitReturnsWhenTheProxyIsReady(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	require.NoError(t, run(context.Background(), []string{"wait", "--url=" + server.URL, "--periodMillis=1"}, nil))
	require.Equal(t, int32(3), asked.Load())
}

func TestWaitSaysWhyTheProxyIsNotReady(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	err := run(context.Background(), []string{"wait", "--url=" + server.URL, "--timeoutSeconds=1"}, nil)
	require.ErrorContains(t, err, "the proxy is not ready after 1 s: "+server.URL+": 404 Not Found")
}

func TestRequestWritesTheAnswerAndNothingElse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(r.Method + " " + r.URL.String()))
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	var out bytes.Buffer
	port := "--debug-port=" + at.Port()
	require.NoError(t, run(context.Background(), []string{"request", port, "post", "stats?filter=a"}, &out))
	require.Equal(t, "POST /stats?filter=a", out.String())
	err = run(context.Background(), []string{"request", port, "GET", "/none"}, &out)
	require.ErrorContains(t, err, "404 Not Found")
}

func TestInterceptionIsShown(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), strings.Fields("istio-iptables --dry-run -i * -b 8080"), &out))
	require.Contains(t, out.String(), "tcp dport 8080 redirect to :15006\n")
	require.Contains(t, out.String(), "tcp redirect to :15001\n")
}
