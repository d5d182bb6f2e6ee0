package kubeapi

import (
	"sync"
	"testing"
)

// Shared is one server for all tests of a package:
//
//	var shared kubeapi.Shared
//
//	func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		api := shared.Server(t)
//		namespace := api.Namespace(t, nil)
//
// It starts with the first test that asks for it. A test that stops it, slows it down or looks at
// objects of all namespaces wants one of its own (Start).
type Shared struct {
	Options Options

	once   sync.Once
	server *Server
	err    error
}

// Run runs the package's tests and then ends the server; it returns the exit code.
func (s *Shared) Run(m *testing.M) int {
	defer func() {
		if s.server != nil {
			s.server.close()
		}
	}()
	return m.Run()
}

// Server is the package's server. Without the binary the test is skipped, or fails if
// $LATEEN_KUBE_REQUIRED is set.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	s.once.Do(func() { s.server, s.err = start(s.Options) })
	require(t, s.err)
	s.server.showLogs(t)
	return s.server
}
