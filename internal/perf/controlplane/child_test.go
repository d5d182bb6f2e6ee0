package controlplane

import (
	"context"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/port"
)

// asServer as the first argument makes this test binary listen at the second until it is told to
// end.
const asServer = "as-server"

func listen(address string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	<-ctx.Done()
	return l.Close()
}

// counted is a process that has used so much.
type counted struct{ cpu time.Duration }

func (c *counted) Usage(context.Context) (measure.Usage, error) {
	return measure.Usage{CPU: c.cpu, Allocated: uint64(c.cpu)}, nil
}

func TestAChildIsRestartedAndEnded(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	target, err := port.Reserve()
	require.NoError(t, err)
	defer target.Release()

	e := External{}.Run(Shell("env A=b "+self+" "+asServer+" "+target.Address), target.Address, nil)
	require.Equal(t, filepath.Base(self), e.Describe(t.Context()).Name)
	u, err := e.Usage(t.Context())
	require.NoError(t, err)
	require.Zero(t, u.Resident, "nothing runs yet")
	require.NoError(t, e.Child.begin(t.Context()))
	before, err := e.Usage(t.Context())
	require.NoError(t, err)
	require.Positive(t, before.Resident)

	require.NoError(t, e.Restart(t.Context()))
	require.NoError(t, e.Child.awaitListening(t.Context()))
	after, err := e.Usage(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, after.CPU, before.CPU, "of both processes")
	require.NoError(t, e.Child.end(t.Context()))
	require.NoError(t, e.Err())
}

func TestAChildThatEndsByItselfIsTold(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	e := External{}.Run(Shell(self+" "+asServer+" nowhere"), "127.0.0.1:1", nil)
	require.ErrorContains(t, e.Child.begin(t.Context()), "the server's last words: listen tcp: address nowhere")
	<-e.Done()
	require.Error(t, e.Err())
}

// TestAProcessThatWasThereCountsFromNow: what it had used before belongs to no phase.
func TestAProcessThatWasThereCountsFromNow(t *testing.T) {
	told := &counted{}
	e := &External{Process: told, RestartCommand: "true", WarmCommand: "true"}
	told.cpu = 100
	var err error
	e.usageBefore, err = e.Usage(t.Context())
	require.NoError(t, err)
	told.cpu = 130
	u, err := e.Usage(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 30, u.CPU)
	require.EqualValues(t, 30, u.Allocated)

	require.NoError(t, e.Restart(t.Context()))
	told.cpu = 5 // of the new process
	u, err = e.Usage(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 35, u.CPU)
	require.EqualValues(t, 35, u.Allocated)

	can, err := e.Warm(t.Context())
	require.NoError(t, err)
	require.True(t, can)
	e.RestartCommand = "echo why; false"
	require.ErrorContains(t, e.Restart(t.Context()), "why")
}
