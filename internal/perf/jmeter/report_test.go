package jmeter

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

const ms = measure.Seconds(time.Millisecond)

func TestMerge(t *testing.T) {
	r, err := Merge("testdata/a.jtl", "testdata/b.jtl")
	require.NoError(t, err)
	require.Equal(t, time.UnixMilli(1796000000000).UTC(), r.Start)
	require.InDelta(t, 1.0, r.Seconds, 1e-9, "from 0 to 1000 ms")
	require.Equal(t, Summary{
		Name: "all", Requests: 7, Failed: 1, PerSecond: 7, Mean: 118 * ms, P50: 20 * ms, P90: 700 * ms, P99: 700 * ms,
		Max: 700 * ms,
	}, r.All)
	require.Equal(t, []Summary{
		{
			Name: "Login", Requests: 2, PerSecond: 2, Mean: 11 * ms, P50: 10 * ms, P90: 12 * ms, P99: 12 * ms,
			Max: 12 * ms,
		},
		{
			Name: "QueryFlight", Requests: 3, Failed: 1, PerSecond: 3, Mean: 250 * ms, P50: 30 * ms, P90: 700 * ms,
			P99: 700 * ms, Max: 700 * ms,
		},
		{
			Name: "logout", Requests: 2, PerSecond: 2, Mean: 27 * ms, P50: 4 * ms, P90: 50 * ms, P99: 50 * ms,
			Max: 50 * ms,
		},
	}, r.Transactions)
	require.Equal(t, "QueryFlight: 503 Service Unavailable", r.Why)
	require.Empty(t, r.Notes)
	require.Len(t, r.Results, 2)
}

// write writes a file of JMeter's.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestMergeNotesWhatMakesFiguresDoubtful: a file that is cut off, and JMeters one after the other.
func TestMergeNotesWhatMakesFiguresDoubtful(t *testing.T) {
	a := write(t, "a.jtl", header+"1000,1000,Login,200,true\n1500,2,Log")
	b := write(t, "b.jtl", header+"2000,1000,Login,200,true\n")
	r, err := Merge(a, b)
	require.NoError(t, err)
	require.Equal(t, []string{
		"a.jtl is cut off in line 3, which is not counted: its JMeter did not end by itself, or the file was copied " +
			"before it had.",
		"All JMeters sent requests together in 0.0 of 2.0 s only: start them at the same time, for longer, on hosts " +
			"whose clocks agree. Requests a second are over the whole time.",
	}, r.Notes)
	require.InDelta(t, 1.0, r.All.PerSecond, 1e-9)
}

func TestMergeRefusesWhatWouldCountTwiceOrNothing(t *testing.T) {
	a := write(t, "a.jtl", header+"1000,1000,Login,200,true\n")
	_, err := Merge(a, a)
	require.EqualError(t, err, a+" and "+a+" are the same file: want the result of each JMeter once")
	none := write(t, "none.jtl", header)
	_, err = Merge(a, none)
	require.EqualError(t, err, none+": it has no requests: its JMeter has sent none")
	_, err = Merge()
	require.EqualError(t, err, "there are no files to merge")
	_, err = Merge(filepath.Join(t.TempDir(), "absent.jtl"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestTables(t *testing.T) {
	r, err := Merge("testdata/a.jtl", "testdata/b.jtl")
	require.NoError(t, err)
	var text bytes.Buffer
	out := terminal.New(&text, func(string) string { return "" })
	out.Paragraph("", terminal.Plain, r.Title())
	r.Load = &Load{
		JMeter: "5.6.3", Target: "http://gateway:80", Processes: 2, Clients: 64, Think: 40 * ms, Duration: 60_000 * ms,
	}
	out.Paragraph("", terminal.Plain, r.Title())
	out.Table(r.Table())
	out.Table(r.ResultTable())
	golden.File(t, "testdata/tables.txt", text.String())
}
