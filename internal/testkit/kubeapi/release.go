package kubeapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// release is what the API server would answer at /version if it were a release. Built from a module
// it has no version, and programs that want one end.
const release = `{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}`

// KubeconfigOfRelease is the path of a kubeconfig for a client who may do everything, and to whom
// the API server says that it is a release. It leads to a proxy that ends with the test.
func (s *Server) KubeconfigOfRelease(t testing.TB) string {
	t.Helper()
	transport, err := rest.TransportFor(s.Config())
	fatal(t, err)
	server, err := url.Parse(s.Config().Host)
	fatal(t, err)
	mux := http.NewServeMux()
	mux.Handle("/", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) }, Transport: transport, FlushInterval: -1,
	})
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, release)
	})
	proxy := httptest.NewServer(mux)
	t.Cleanup(proxy.Close)
	t.Cleanup(proxy.CloseClientConnections) // watches stay open
	file := filepath.Join(t.TempDir(), "kubeconfig")
	fatal(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: proxy.URL}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c"}},
		CurrentContext: "x",
	}, file))
	return file
}
