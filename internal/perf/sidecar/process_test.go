package sidecar_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/heap"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// child is a control plane in a process of its own, so that memory and time of this one are the
// sidecars'.
type child struct {
	tb         testing.TB
	address    string
	monitoring string // the address of its metrics
	in         io.WriteCloser
	out        *bufio.Reader
	cmd        *exec.Cmd
}

func startChild(tb testing.TB, services int) *child {
	c := &child{tb: tb, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", planeEnv, services))
	c.cmd.Stderr = tb.Output()
	out, err := c.cmd.StdoutPipe()
	require.NoError(tb, err)
	c.in, err = c.cmd.StdinPipe()
	require.NoError(tb, err)
	require.NoError(tb, c.cmd.Start())
	c.out = bufio.NewReader(out)
	_, err = fmt.Fscanln(c.out, &c.address, &c.monitoring)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		require.NoError(tb, c.in.Close())
		require.NoError(tb, c.cmd.Wait())
	})
	return c
}

// edit changes the endpoints of a service that all sidecars see but a few.
func (c *child) edit(variant int) {
	_, err := fmt.Fprintln(c.in, variant)
	require.NoError(c.tb, err)
}

// settle waits until all who are connected have acknowledged all changes.
func (c *child) settle() {
	c.edit(settles)
	var answer string
	_, err := fmt.Fscanln(c.out, &answer)
	require.NoError(c.tb, err)
}

// settles is a line with which a child waits for its clients, and answers with a line.
const settles = -1

// bePlane is what a child does: it serves until its input ends, and each line of it is a change, or
// settles.
func bePlane(services int) {
	var tb planeTB
	defer tb.cleanUp()
	p := startPlane(&tb, services, "")
	_, _ = fmt.Fprintln(os.Stdout, p.address, p.monitoring)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var variant int
		_, _ = fmt.Sscan(lines.Text(), &variant)
		if variant != settles {
			p.send(endpoints(variant))
			continue
		}
		p.settle()
		_, _ = fmt.Fprintln(os.Stdout, "settled")
	}
}

func endpoints(variant int) source.Change {
	slice := meshgen.Slice(meshgen.Number(7, meshgen.Plain))
	slice.Endpoints = append(slice.Endpoints,
		discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("127.200.%d.%d", variant/250%250, 1+variant%250)}})
	return meshgen.Upsert(slice)
}

// planeTB is as much of a testing.TB as a control plane outside of a test needs.
type planeTB struct {
	testing.TB
	last []func()
}

func (*planeTB) Helper()            {}
func (t *planeTB) Cleanup(f func()) { t.last = append(t.last, f) }
func (*planeTB) FailNow()           { os.Exit(1) }
func (*planeTB) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

func (t *planeTB) cleanUp() {
	for _, f := range t.last {
		f()
	}
}

// inUse is the heap and the stacks of this process.
func inUse() int {
	u := heap.InUse()
	return int(u.Heap + u.Stacks)
}

// bytesEach is what a sidecar may cost in memory of the process; sockets' buffers are the kernel's
// and empty.
const bytesEach = 2 << 10

func TestASidecarCostsLittleMemory(t *testing.T) {
	if raced {
		t.Skip("with the race detector everything is larger")
	}
	const n = 1500
	for _, o := range []sidecar.Options{{Protocol: sidecar.Delta}, {Protocol: sidecar.StateOfTheWorld}} {
		t.Run(o.Protocol.String(), func(t *testing.T) {
			o.Targets = []string{startChild(t, 100).address}
			f := newFleet(t, o)
			start(f, 50, sidecar.Faults{}) // what all share is there
			await(t, f, "the first in sync", allSynced)
			before, goroutines := inUse(), runtime.NumGoroutine()
			start(f, n, sidecar.Faults{})
			await(t, f, "a fleet in sync", allSynced)
			each := (inUse() - before) / n
			t.Logf("%d bytes each", each)
			require.Less(t, each, bytesEach)
			require.Eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines+1 }, patience,
				time.Millisecond, "sidecars have none (and the look has one)")
		})
	}
}

// cpu is what a process used so far.
func cpu(b *testing.B, of int) time.Duration {
	u, err := measure.PID(of).Usage(b.Context())
	require.NoError(b, err)
	return u.CPU
}

// BenchmarkPush is one change of endpoints, until all of 2,000 sidecars have acknowledged it: CPU
// of the sidecars' process, and of the control plane's, for each sidecar.
func BenchmarkPush(b *testing.B) {
	const n = 2000
	c := startChild(b, 100)
	f := newFleet(b, sidecar.Options{Targets: []string{c.address}})
	start(f, n, sidecar.Faults{})
	await(b, f, "a fleet in sync", allSynced)
	acks := func(s sidecar.Stats) uint64 { return s.Types[sidecar.Endpoint].Acks }
	before := acks(f.Stats())
	c.edit(0)
	idle := inUse()
	await(b, f, "a change", func(s sidecar.Stats) bool { return acks(s) > before+n/2 })
	own, plane, first, variant := cpu(b, os.Getpid()), cpu(b, c.cmd.Process.Pid), acks(f.Stats()), 0
	for b.Loop() {
		variant++
		was := acks(f.Stats())
		c.edit(variant)
		await(b, f, "a change", func(s sidecar.Stats) bool { return acks(s) >= was+n/2 })
	}
	pushes := float64(acks(f.Stats()) - first)
	b.ReportMetric(float64(cpu(b, os.Getpid())-own)/pushes/1e3, "sidecar-µs/push")
	b.ReportMetric(float64(cpu(b, c.cmd.Process.Pid)-plane)/pushes/1e3, "plane-µs/push")
	b.ReportMetric(float64(idle)/n, "B/sidecar")
}
