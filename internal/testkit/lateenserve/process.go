package lateenserve

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long anything may take that should happen in a moment; on a busy machine moments
// are long.
const patience = 3 * time.Minute

// Tags are what the binary is built with. The Makefile has the same ones, and says why.
const Tags = "grpcnotrace"

// Build puts lateen-discovery into a directory, built with further flags of `go build`, and returns
// its path.
func Build(dir string, flags ...string) (string, error) { return build(dir, "lateen-discovery", flags) }

// BuildCommands builds lateen, which people run, and returns its path.
func BuildCommands(dir string, flags ...string) (string, error) { return build(dir, "lateen", flags) }

// BuildInstaller builds what `lateen manifest` and its like run, beside the binary in dir.
func BuildInstaller(dir string) error {
	_, err := build(dir, "lateen-installer", nil)
	return err
}

// BuildLoadTest builds what `lateen perf data-plane` and `lateen perf report` run, and returns its
// path.
func BuildLoadTest(dir string) (string, error) { return build(dir, "lateen-perf", nil) }

// GoBuild is a command that builds a program as the Makefile does, without C, so that its packages
// are compiled once for tests, `make build` and images. The race detector needs C.
func GoBuild(args ...string) *exec.Cmd {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-tags", Tags, "-trimpath"}, args)...)
	if !slices.Contains(args, "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	return cmd
}

func build(dir, program string, flags []string) (string, error) {
	path := filepath.Join(dir, program)
	args := slices.Concat([]string{"-o", path}, flags, []string{"github.com/lateen-mesh/lateen/cmd/" + program})
	if out, err := GoBuild(args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// Options say what is run.
type Options struct {
	Binary string
	// Args follow `lateen serve` and the addresses, which are free ports of loopback.
	Args []string
	// Env is added to the test's own environment.
	Env []string
}

// Process is a running `lateen serve`.
type Process struct {
	// XDS is where it serves proxies in plaintext, Monitoring where /metrics and /debug are.
	XDS, Monitoring string

	cmd  *exec.Cmd
	done chan struct{} // closed when its output has ended
	log  *log
	stop sync.Once
}

// Start runs a process until the test ends. It returns when the process listens; it serves proxies
// when it has read the first state.
func Start(t testing.TB, o Options) *Process {
	t.Helper()
	LookAtSources(t)
	p := &Process{done: make(chan struct{}), log: &log{changed: make(chan struct{})}}
	args := []string{"serve", "--xds-address", "127.0.0.1:0", "--monitoring-address", "127.0.0.1:0"}
	p.cmd = exec.Command(o.Binary, append(args, o.Args...)...)
	p.cmd.Env = append(os.Environ(), o.Env...)
	p.cmd.SysProcAttr = tied()
	output, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.log.read(output)
	}()
	t.Cleanup(func() {
		p.Stop(t)
		if t.Failed() {
			t.Logf("the end of lateen's log:\n%s", p.log.tail())
		}
	})
	at := p.Await(t, `msg=serving xds=(\S+) monitoring=(\S+)`)
	p.XDS, p.Monitoring = at[1], at[2]
	return p
}

// LookAtSources makes a test's result depend on what the binary is made from and runs on: "go test"
// keeps a result while the files that a test has looked at are the same, and does not know what the
// binary was built from. Reading the directories is what counts.
func LookAtSources(t testing.TB) {
	t.Helper()
	if err := lookedAtSources(); err != nil {
		t.Fatal(err)
	}
}

var lookedAtSources = sync.OnceValue(func() error {
	root, err := os.Getwd()
	for err == nil && root != filepath.Dir(root) {
		if _, missing := os.Stat(filepath.Join(root, "go.mod")); missing == nil {
			break
		}
		root = filepath.Dir(root)
	}
	for _, dir := range []string{"cmd", "internal", "examples"} {
		if err == nil {
			err = filepath.WalkDir(filepath.Join(root, dir), func(string, fs.DirEntry, error) error { return nil })
		}
	}
	return err
})

// Stop ends the process as an orchestrator does, and waits until it is gone.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.stop.Do(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(patience):
			t.Errorf("lateen did not end within %v of SIGTERM", patience)
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("lateen ended: %v", err)
		}
	})
}

// Await waits for a line of the log that matches a pattern, be it in the past, and returns the
// match with its groups.
func (p *Process) Await(t testing.TB, pattern string) []string {
	t.Helper()
	is := regexp.MustCompile(pattern)
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		line, changed := p.log.find(is)
		if line != nil {
			return line
		}
		select {
		case <-changed:
		case <-p.done:
			t.Fatalf("lateen has ended; its log:\n%s", p.log.tail())
		case <-timeout.C:
			t.Fatalf("no line of lateen's log matches %s", pattern)
		}
	}
}

// log are all lines of the process, as many as a test's life makes.
type log struct {
	mu      sync.Mutex
	lines   []string
	changed chan struct{} // closed and replaced with every line
}

func (l *log) read(from io.Reader) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		l.mu.Lock()
		l.lines = append(l.lines, scanner.Text())
		close(l.changed)
		l.changed = make(chan struct{})
		l.mu.Unlock()
	}
}

func (l *log) find(is *regexp.Regexp) ([]string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if found := is.FindStringSubmatch(line); found != nil {
			return found, nil
		}
	}
	return nil, l.changed
}

func (l *log) tail() string {
	const lines = 60
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-lines):], "\n")
}
