package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// computing is the name of the variable by which a test's process becomes one of these commands.
const computing = "LATEEN_TEST_COMPUTING"

// computers are commands that compute for ever, or end when they are told.
func computers() *cobra.Command {
	root := &cobra.Command{Use: "test", SilenceErrors: true, SilenceUsage: true}
	ready := func() { _, _ = fmt.Fprintln(os.Stdout, "computing") }
	forever := func() {
		for n := 0; ; n++ {
			if n < 0 {
				n = 0
			}
		}
	}
	root.AddCommand(
		&cobra.Command{Use: "deaf", Run: func(*cobra.Command, []string) { ready(); forever() }},
		&cobra.Command{Use: "busy", Run: func(cmd *cobra.Command, _ []string) {
			_, cancel := context.WithCancel(cmd.Context())
			cancel() // of a request, say
			ready()
			forever()
		}},
		&cobra.Command{Use: "waits", RunE: func(cmd *cobra.Command, _ []string) error {
			done := cmd.Context().Done()
			ready() // to be told: who has not asked is ended at once
			<-done
			return ExitCode(7)
		}},
		EndsItself(&cobra.Command{Use: "tidies", RunE: func(cmd *cobra.Command, _ []string) error {
			done := cmd.Context().Done()
			ready()
			<-done
			time.AfterFunc(20*time.Millisecond, func() { os.Exit(8) })
			select {}
		}}),
	)
	return root
}

func TestMain(m *testing.M) {
	if name := os.Getenv(computing); name != "" {
		within := time.Hour
		if name == "busy" || name == "tidies" {
			within = time.Millisecond
		}
		os.Exit(runUntilSignal(computers(), []string{name}, within))
	}
	os.Exit(m.Run())
}

// A signal ends a command whatever it computes, and one that listens ends by itself.
func TestSignalsEndEachCommand(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		code   int // -1 if the signal ends the process
	}{
		{"deaf", syscall.SIGTERM, -1},
		{"deaf", syscall.SIGINT, -1},
		{"busy", syscall.SIGTERM, -1},
		{"busy", syscall.SIGINT, -1},
		{"waits", syscall.SIGTERM, 7},
		{"tidies", syscall.SIGTERM, 8},
	} {
		t.Run(c.name+" "+c.signal.String(), func(t *testing.T) {
			self, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), computing+"="+c.name)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			_, err = bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(c.signal))
			var ended *exec.ExitError
			require.True(t, errors.As(cmd.Wait(), &ended))
			require.Equal(t, c.code, ended.ExitCode())
			if c.code < 0 {
				require.Equal(t, c.signal, ended.Sys().(syscall.WaitStatus).Signal())
			}
		})
	}
}
