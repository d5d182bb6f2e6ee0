package change

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mesh is a "lateen up" that runs on a directory of its own.
type mesh struct {
	t          *testing.T
	dir, state string
	screen     *screen
	process    *os.Process
	done       chan struct{} // closed when the process was reaped and its screen read to the end
	exit       int           // valid after done
	gateway    string        // URL
	monitoring string        // host:port
}

// bookinfo is a copy of the example, for a test to edit.
func bookinfo(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bookinfo")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("../../..", "examples", "bookinfo"))))
	return dir
}

// start runs "lateen up" on a directory and waits until it says that everything is ready.
func start(t *testing.T, dir string, args ...string) *mesh {
	t.Helper()
	began := time.Now()
	m := launch(t, dir, args...)
	m.gateway = m.screen.await(t, 0, `^gateway +(http://\S+)`)[1]
	m.monitoring = m.screen.await(t, 0, `^metrics +http://(\S+)/metrics`)[1]
	m.screen.await(t, 0, `Ctrl-C`)
	t.Logf("the mesh was there after %v", time.Since(began).Round(time.Millisecond))
	return m
}

// launch runs "lateen up" and waits for nothing.
func launch(t *testing.T, dir string, args ...string) *mesh {
	t.Helper()
	m := &mesh{
		t:      t,
		dir:    dir,
		state:  filepath.Join(filepath.Dir(dir), "state"),
		screen: newScreen(),
		done:   make(chan struct{}),
	}
	args = append([]string{"up", dir, "--free-ports", "--state-dir", m.state, "--envoy", envoy(t)}, args...)
	cmd := exec.Command(binary, args...)
	cmd.Env = environ()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	m.process = cmd.Process
	go func() {
		defer close(m.done)
		m.screen.read(out)
		_ = cmd.Wait() // the exit code says it
		m.exit = cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		exit := m.stop(syscall.SIGINT)
		require.LessOrEqual(
			t, exit, 1, "a crash or a data race: 0 is a good end, 1 one that lateen tells of, -1 a kill",
		)
		require.NotContains(t, m.screen.String(), "DATA RACE")
		if t.Failed() {
			t.Logf("the screen of lateen up:\n%s", m.screen)
		}
	})
	return m
}

// stop sends a signal, waits for the end and returns the exit code (-1: it was killed). Once it has
// ended it does nothing more.
func (m *mesh) stop(sig syscall.Signal) int {
	select {
	case <-m.done:
		return m.exit
	default:
	}
	require.NoError(m.t, m.process.Signal(sig))
	select {
	case <-m.done:
	case <-time.After(patience):
		_ = m.process.Kill()
		<-m.done
		require.Fail(m.t, "lateen up did not end after "+sig.String())
	}
	return m.exit
}

// edit replaces texts that a file has exactly once, all at the same time: from, to, from, to …
func (m *mesh) edit(file string, texts ...string) {
	m.t.Helper()
	path := filepath.Join(m.dir, file)
	content, err := os.ReadFile(path)
	require.NoError(m.t, err)
	for i := 0; i < len(texts); i += 2 {
		require.Equal(m.t, 1, strings.Count(string(content), texts[i]), "%q in %s", texts[i], file)
	}
	require.NoError(m.t, os.WriteFile(path, []byte(strings.NewReplacer(texts...).Replace(string(content))), 0o644))
}

// write makes or replaces a file.
func (m *mesh) write(file, content string) {
	m.t.Helper()
	require.NoError(m.t, os.WriteFile(filepath.Join(m.dir, file), []byte(content), 0o644))
}

// scale sets the replicas of a Deployment in the manifests.
func (m *mesh) scale(file, deployment string, replicas string) {
	m.t.Helper()
	path := filepath.Join(m.dir, file)
	content, err := os.ReadFile(path)
	require.NoError(m.t, err)
	re := regexp.MustCompile(`(kind: Deployment\nmetadata:\n  name: ` + deployment + `\nspec:\n  replicas: )\d+`)
	require.Len(m.t, re.FindAll(content, -1), 1, "%s in %s", deployment, file)
	require.NoError(m.t, os.WriteFile(path, re.ReplaceAll(content, []byte("${1}"+replicas)), 0o644))
}

// pushed waits for the line on a push that a change of an object caused, since a mark: by itself,
// or as one of several.
func (m *mesh) pushed(mark int, object string) {
	m.t.Helper()
	m.screen.await(m.t, mark, `push \d+: .*(`+regexp.QuoteMeta(object)+
		`|and \d+ more).* → \d+ prox(y|ies), [\d.]+ (B|kB|MB), last ACK after \S+$`)
}

// running are the pods of a Deployment that the screen has shown as ready and not as stopped since.
func (m *mesh) running(deployment string) map[string]string {
	return running(m.screen.since(0), deployment)
}

var (
	rowLine    = regexp.MustCompile(`^default +(\S+) +yes +(127\.\S+)`)
	readyLine  = regexp.MustCompile(`default/(\S+): ready at (127\.\S+)$`)
	brokenLine = regexp.MustCompile(`default/(\S+)(?: \(\S+\))?: (?:crashed|stopped)`)
)

// running gives the addresses of the pods by name.
func running(lines []string, deployment string) map[string]string {
	pods := map[string]string{}
	for _, line := range lines {
		for _, re := range []*regexp.Regexp{rowLine, readyLine} {
			if found := re.FindStringSubmatch(line); found != nil && strings.HasPrefix(found[1], deployment+"-") {
				pods[found[1]] = found[2]
			}
		}
		if found := brokenLine.FindStringSubmatch(line); found != nil {
			delete(pods, found[1])
		}
	}
	return pods
}

// settled waits until a Deployment has so many ready pods, and no other that is on its way in or
// out.
func (m *mesh) settled(deployment string, replicas int) {
	m.t.Helper()
	m.screen.until(m.t, 0, deployment+" to settle", func(lines []string) bool {
		return len(running(lines, deployment)) == replicas
	})
}

// lateen runs another command of the binary against this mesh.
func (m *mesh) lateen(env []string, args ...string) (stdout, stderr string, exit int) {
	m.t.Helper()
	return lateen(m.t, env, append(args, "--monitoring-address", m.monitoring)...)
}

func lateen(t *testing.T, env []string, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = environ(env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says it
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// environ is this process's environment with more in it. A binary that looks for data races does
// not wait a second before it ends.
func environ(more ...string) []string {
	return append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), more...)
}

// status is what "lateen status -o json" says.
type status struct {
	Proxies []struct {
		Proxy     string `json:"proxy"`
		Pending   bool   `json:"pending"`
		Resources map[string]struct {
			State, Type      string
			Resources, Bytes int
		} `json:"resources"`
	} `json:"proxies"`
	Problems []struct {
		Severity, Origin, Kind, Name, Path, Value, Message, Want string
	} `json:"problems"`
}

func (m *mesh) status() status {
	m.t.Helper()
	out, errs, exit := m.lateen(nil, "status", "-o", "json")
	require.Zero(m.t, exit, errs)
	var s status
	require.NoError(m.t, json.Unmarshal([]byte(out), &s), out)
	return s
}

// holdings are how many resources of each type the connected proxies have, and how large they are
// together, if all of them have all that they should have.
func (m *mesh) holdings() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, p := range m.status().Proxies {
		all[p.Proxy] = map[string]string{}
		for _, r := range p.Resources {
			if p.Pending || r.State != "SYNCED" && r.State != "NOT_SENT" {
				return nil
			}
			all[p.Proxy][r.Type] = fmt.Sprintf("%d resources, %d bytes", r.Resources, r.Bytes)
		}
	}
	return all
}

func (m *mesh) requireSettled() {
	m.t.Helper()
	await(m.t, "every proxy to have everything", func() bool { return m.holdings() != nil })
}
