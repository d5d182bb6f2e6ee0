package jmeter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say how JMeters run a plan.
type Options struct {
	// Program is the path of jmeter, and Plan what the file of the plan has. The plan reads the
	// properties protocol, host, port, threads, think (in ms), duration (in s) and sessions.
	Program string
	Plan    []byte
	// Target is where requests go. Its path is not used.
	Target *url.URL
	// Processes is how many JMeters run at the same time. They share Clients.
	Processes, Clients int
	// Think is how long a client waits before each request, in whole milliseconds.
	Think time.Duration
	// Duration is how long requests are sent, in whole seconds.
	Duration time.Duration
	// Dir is an absolute path. It gets the plan, and the result, output and log of each process.
	Dir string
}

// waitDelay is how long is waited for the output of a process that was ended.
const waitDelay = 10 * time.Second

// probeTimeout is how long a JMeter may take for nothing, and overtime how long beyond the
// duration.
const probeTimeout, overtime = 2 * time.Minute, 2 * time.Minute

// versionLine is in the log of each JMeter.
var versionLine = regexp.MustCompile(`(?m)JMeter: Version (\S+)`)

// Probe runs the plan without a session, which shows whether this JMeter runs at all and can read
// the plan, and returns its version.
func (o Options) Probe(ctx context.Context) (version string, err error) {
	if err := os.WriteFile(o.planFile(), o.Plan, 0o644); err != nil {
		return "", err
	}
	ctx, end := o.within(ctx, probeTimeout)
	defer end()
	if err := o.run(ctx, "probe", "-Jsessions=0", "-Jthreads=1", "-Jduration=1"); err != nil {
		return "", err
	}
	log, err := os.ReadFile(o.file("probe", "log"))
	if err != nil {
		return "", err
	}
	for _, extension := range []string{"jtl", "log"} {
		if err := os.Remove(o.file("probe", extension)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	if found := versionLine.FindSubmatch(log); found != nil {
		return string(found[1]), nil
	}
	return "unknown", nil
}

// Run has the JMeters run the plan, and returns the paths of their JTL files. If one fails, all are
// ended.
func (o Options) Run(ctx context.Context) (files []string, err error) {
	if err := os.WriteFile(o.planFile(), o.Plan, 0o644); err != nil {
		return nil, err
	}
	ctx, end := o.within(ctx, o.Duration+overtime)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for n := range o.Processes {
		name := "jmeter-" + strconv.Itoa(n+1)
		files = append(files, o.file(name, "jtl"))
		running.Go(func() {
			if err := o.run(ctx, name, o.properties(n)...); err != nil {
				cancel(err) // the first one counts
			}
		})
	}
	running.Wait()
	return files, context.Cause(ctx)
}

// within bounds how long JMeters may take.
func (o Options) within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("JMeter (%s) has not ended within %v", o.Program, limit))
}

// properties are those of the plan for the process number n.
func (o Options) properties(n int) []string {
	threads := o.Clients / o.Processes
	if n < o.Clients%o.Processes {
		threads++
	}
	port := o.Target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[o.Target.Scheme]
	}
	return []string{
		"-Jprotocol=" + o.Target.Scheme, "-Jhost=" + o.Target.Hostname(), "-Jport=" + port,
		"-Jthreads=" + strconv.Itoa(threads), "-Jthink=" + strconv.FormatInt(o.Think.Milliseconds(), 10),
		"-Jduration=" + strconv.Itoa(int(o.Duration/time.Second)),
	}
}

// run runs one JMeter until it ends. Its files have that name.
func (o Options) run(ctx context.Context, name string, properties ...string) error {
	const save = "-Jjmeter.save.saveservice."
	args := append([]string{
		"-n", "-t", o.planFile(), "-l", o.file(name, "jtl"), "-j", o.file(name, "log"),
		save + "output_format=csv", save + "print_field_names=true", save + "default_delimiter=,",
		save + "timestamp_format=ms", "-Jsampleresult.timestamp.start=true",
	}, properties...)
	if err := os.Remove(o.file(name, "jtl")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // JMeter would add to it
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, o.Program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.Dir, &said, &said
	cmd.SysProcAttr, cmd.WaitDelay = attributes(), waitDelay
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // a script's Java too
	err := cmd.Run()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return fmt.Errorf("JMeter (%s) does not run the plan: %w: %s", o.Program, err, excerpt(said.String()))
	}
	return nil
}

// excerpt returns the first lines of what a program has said, without those of its log library.
func excerpt(said string) string {
	const most = 5
	var lines []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "WARN StatusConsoleListener") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[:min(len(lines), most)], "; ")
}

func (o Options) planFile() string { return filepath.Join(o.Dir, "plan.jmx") }

func (o Options) file(name, extension string) string { return filepath.Join(o.Dir, name+"."+extension) }
