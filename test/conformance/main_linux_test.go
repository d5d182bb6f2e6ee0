package conformance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

const (
	// programsVariable has the directory of the programs; they are built if it is not set.
	programsVariable = "LATEEN_CONFORMANCE_PROGRAMS"
	// isolatedVariable is set in the process that runs the tests.
	isolatedVariable = "LATEEN_CONFORMANCE_ISOLATED"
	pauseCommand     = "pause"
)

// TestMain runs the tests in a network namespace of their own, where the addresses of Pods and the
// API server can be reached and nothing else. The test binary is the programs of Pods too.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == podnet.InitCommand:
		err = podnet.Init(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == pauseCommand:
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		<-ended
	case len(os.Args) > 3 && os.Args[1] == answerCommand:
		err = answer(os.Args[2:])
	case len(os.Args) > 3 && os.Args[1] == echoCommand:
		err = echo(os.Args[2:])
	case os.Getuid() != 0:
		err = errors.New("network namespaces need root")
	case os.Getenv(isolatedVariable) != "":
		if err = podnet.UpLoopback(); err == nil {
			os.Exit(m.Run())
		}
	case os.Getenv(programsVariable) != "":
		os.Exit(isolated())
	default:
		os.Exit(lateenserve.Main(build, isolated))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// isolated runs this program again in a network namespace of its own.
func isolated() int {
	runtime.LockOSThread() // the other process ends with the thread that started it
	command := exec.Command(os.Args[0], os.Args[1:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), isolatedVariable+"=1")
	podnet.Isolated(command)
	if err := command.Run(); command.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return command.ProcessState.ExitCode()
}

// build builds Lateen from its own module, and what the Pods of the suite run from this one.
func build(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // proxies run as another user
		return err
	}
	if err := os.Setenv(programsVariable, dir); err != nil {
		return err
	}
	for _, p := range []struct{ module, name, of string }{
		{"../..", "lateen", "./cmd/lateen"},
		{"../..", "lateen-agent", "./cmd/lateen-agent"},
		{".", "echo-basic", "sigs.k8s.io/gateway-api/conformance/echo-basic"},
		{".", "echo-server", "istio.io/istio/pkg/test/echo/cmd/server"},
		{".", "echo-client", "istio.io/istio/pkg/test/echo/cmd/client"},
	} {
		build := lateenserve.GoBuild("-ldflags", "-s -w", "-o", filepath.Join(dir, p.name), p.of)
		build.Dir = p.module
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", p.name, err, out)
		}
	}
	return nil
}

func program(name string) string { return filepath.Join(os.Getenv(programsVariable), name) }
