package kubeapi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lateen-mesh/lateen/internal/perf/port"
)

// Options say what the server is like. The zero value is what most tests want.
type Options struct {
	// NoControllerManager leaves kube-controller-manager out: nobody makes EndpointSlices, service
	// accounts and tokens, or deletes what a deleted namespace holds. For tests that write all
	// objects themselves.
	NoControllerManager bool
	// NoWatchCache makes the API server answer watches from etcd, so that a watch from before a
	// compaction expires at once. With the cache, which is the default, it does so after a restart.
	NoWatchCache bool
	// APIServerFlags and ControllerManagerFlags are appended to ours, so they win.
	APIServerFlags, ControllerManagerFlags []string
}

// startTimeout bounds the start of the API server: five seconds alone on two cores, much more when
// tests of other packages are being compiled beside it.
const startTimeout = 3 * time.Minute

// Server is a running Kubernetes control plane. Its methods may be called by several tests at the
// same time, but for Stop and Restart, which are everybody's.
type Server struct {
	options Options
	program string
	dir     string
	proxy   *proxy
	port    *port.Reservation // the API server's own
	config  *rest.Config

	mu                       sync.Mutex
	etcd, apiServer, manager *process
}

// Start runs a server for one test. Without the binary the test is skipped, or fails if
// $LATEEN_KUBE_REQUIRED is set.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	s, err := start(options)
	require(t, err)
	t.Cleanup(s.close)
	s.showLogs(t)
	return s
}

func start(options Options) (*Server, error) {
	program, err := binary()
	if err != nil {
		return nil, err
	}
	// Not the test's own directory: its path may be too long for a Unix socket.
	dir, err := os.MkdirTemp("", "lateen-kube-")
	if err != nil {
		return nil, err
	}
	s := &Server{options: options, program: program, dir: dir}
	if err := s.prepare(); err != nil {
		s.close()
		return nil, err
	}
	if s.etcd, err = spawn(dir, program, "etcd", "--dir", s.path("etcd"), "--socket", s.path("etcd.sock")); err != nil {
		s.close()
		return nil, err
	}
	if err := s.up(); err != nil {
		err = fmt.Errorf("%w\n%s", err, s.tails())
		s.close()
		return nil, err
	}
	return s, nil
}

// prepare makes certificates, chooses the ports, and writes a kubeconfig for them.
func (s *Server) prepare() error {
	ca, admin, err := writeCertificates(s.dir)
	if err != nil {
		return err
	}
	if s.proxy, err = newProxy(); err != nil {
		return err
	}
	if s.port, err = port.Reserve(); err != nil {
		return err
	}
	s.config = &rest.Config{
		Host:            "https://" + s.proxy.port.Address,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca, CertData: admin.certificate, KeyData: admin.key},
		QPS:             -1, // no limit
	}
	const name = "test"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {Server: s.config.Host, CertificateAuthorityData: ca}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			name: {ClientCertificateData: admin.certificate, ClientKeyData: admin.key},
		},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, s.Kubeconfig())
}

// Config is that of a client who may do everything. The caller owns it.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Kubeconfig is the path of a file that says the same as Config.
func (s *Server) Kubeconfig() string { return s.path("kubeconfig") }

// Stop kills the API server and the controller manager: connections break and new ones are refused.
// What is stored stays.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down()
}

// Restart starts the API server again, on the same port and with the same data, and returns when it
// is ready. A server that is not stopped is stopped first.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down()
	if err := s.up(); err != nil {
		t.Fatalf("%v\n%s", err, s.tails())
	}
}

// Sever breaks all connections to the API server that there are now; new ones work.
func (s *Server) Sever() { s.proxy.sever() }

// Slow delays everything that the API server says from now on: each piece of up to 32 KB by
// latency. Zero ends it.
func (s *Server) Slow(latency time.Duration) { s.proxy.slow(latency) }

// Compact makes etcd drop all history before now: a list or a watch at an older resource version is
// answered with 410 Gone, unless the API server's watch cache still has it (see
// Options.NoWatchCache, and Restart).
func (s *Server) Compact(t testing.TB) {
	t.Helper()
	s.run(t, nil, "compact", "--socket", s.path("etcd.sock"))
}

// Put stores an object as JSON under etcd's key (/registry/<group if it is a custom
// resource>/<resource>/<namespace>/<name>), past the API server's validation and admission. Watches
// report it like any other change.
func (s *Server) Put(t testing.TB, key string, object []byte) {
	t.Helper()
	s.run(t, object, "put", "--socket", s.path("etcd.sock"), "--key", key)
}

func (s *Server) run(t testing.TB, input []byte, args ...string) {
	t.Helper()
	cmd := exec.Command(s.program, args...)
	cmd.Stdin = bytes.NewReader(input)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kube %s: %v\n%s", args[0], err, output)
	}
}

// down ends what Stop ends.
func (s *Server) down() {
	s.proxy.close()
	s.manager.kill()
	s.apiServer.kill()
	s.manager, s.apiServer = nil, nil
}

// up starts what Stop ended.
func (s *Server) up() error {
	err := s.startAPIServer()
	if err != nil || s.options.NoControllerManager {
		return err
	}
	s.manager, err = spawn(s.dir, s.program, s.managerArgs()...)
	return err
}

func (s *Server) startAPIServer() (err error) {
	if s.apiServer, err = spawn(s.dir, s.program, s.apiServerArgs()...); err != nil {
		return err
	}
	if err := s.proxy.open(s.port.Address); err != nil {
		return err
	}
	if err := s.awaitReady(); err != nil {
		s.proxy.close()
		s.apiServer.kill()
		return err
	}
	return nil
}

// close ends everything and removes the data.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proxy != nil {
		s.down()
		s.proxy.port.Release()
	}
	s.port.Release()
	s.etcd.kill()
	_ = os.RemoveAll(s.dir)
}

// showLogs adds the ends of the processes' logs to the output of a failed test. It looks before an
// earlier cleanup removes them.
func (s *Server) showLogs(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Log(s.tails())
		}
	})
}

func (s *Server) tails() string {
	var all bytes.Buffer
	for _, p := range []*process{s.etcd, s.apiServer, s.manager} {
		if p != nil {
			fmt.Fprintln(&all, p.tail())
		}
	}
	return all.String()
}

func (s *Server) path(name string) string { return filepath.Join(s.dir, name) }
