package jmeter

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// playing returns options with a shell script in place of JMeter. $jtl is the file it has to write.
func playing(t *testing.T, script string) Options {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "jmeter")
	start := "#!/bin/sh\njtl=$5 log=$7\n"
	require.NoError(t, os.WriteFile(program, []byte(start+script), 0o755)) //nolint:gosec // it is a program
	return Options{
		Program: program, Plan: []byte("plan"), Target: &url.URL{Scheme: "https", Host: "gateway"}, Processes: 2,
		Clients: 5, Think: 40 * time.Millisecond, Duration: 3 * time.Second, Dir: dir,
	}
}

// TestProcessesShareTheClients, and each is told where the requests go.
func TestProcessesShareTheClients(t *testing.T) {
	o := playing(t, `printf '%s\n' "$*" >"$jtl"`)
	require.NoError(t, os.WriteFile(o.file("jmeter-1", "jtl"), []byte("of an earlier run"), 0o600))
	files, err := o.Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{o.file("jmeter-1", "jtl"), o.file("jmeter-2", "jtl")}, files)
	for i, threads := range []string{"3", "2"} {
		said, err := os.ReadFile(files[i])
		require.NoError(t, err)
		last := " -Jprotocol=https -Jhost=gateway -Jport=443 -Jthreads=" + threads + " -Jthink=40 -Jduration=3\n"
		require.True(t, strings.HasSuffix(string(said), last), "%s", said)
		first := "-n -t " + filepath.Join(o.Dir, "plan.jmx") + " -l "
		require.True(t, strings.HasPrefix(string(said), first), "%s", said)
	}
	plan, err := os.ReadFile(filepath.Join(o.Dir, "plan.jmx"))
	require.NoError(t, err)
	require.Equal(t, "plan", string(plan))
}

// TestTheFirstJMeterThatFailsEndsTheOthers, those that a script has started too, and is told with
// what it has said.
func TestTheFirstJMeterThatFailsEndsTheOthers(t *testing.T) {
	o := playing(t, `case $jtl in *jmeter-2.jtl) echo "no such plan"; exit 3;; esac; sleep 600; echo`)
	_, err := o.Run(t.Context())
	require.EqualError(t, err, "JMeter ("+o.Program+") does not run the plan: exit status 3: no such plan")
}

func TestAnInterruptEndsJMeters(t *testing.T) {
	o := playing(t, `: >"$jtl"; sleep 600; echo`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := o.Run(ctx)
		ended <- err
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(o.file("jmeter-2", "jtl"))
		return err == nil
	}, time.Minute, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestProbeReadsTheVersion(t *testing.T) {
	o := playing(t, `printf '%s' "$*" | grep -q -e -Jsessions=0 && echo "INFO o.a.j.JMeter: Version 5.6.3" >"$log"`)
	version, err := o.Probe(t.Context())
	require.NoError(t, err)
	require.Equal(t, "5.6.3", version)
	require.NoFileExists(t, o.file("probe", "log"), "only results are left")

	o = playing(t, `echo "WARN StatusConsoleListener x"; echo "JMeter needs Java" >&2; exit 1`)
	_, err = o.Probe(t.Context())
	require.EqualError(t, err, "JMeter ("+o.Program+") does not run the plan: exit status 1: JMeter needs Java")
}
