package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestQuantile compares with the definition.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := rapid.Map(rapid.Int64Range(0, int64(time.Hour)),
			func(n int64) time.Duration { return time.Duration(n) })
		short := rapid.Map(rapid.Int64Range(0, 300), func(n int64) time.Duration { return time.Duration(n) })
		times := rapid.SliceOfN(rapid.OneOf(duration, short), 1, 50).Draw(t, "times")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		d := NewDistribution(times...)
		slices.Sort(times)
		exact := times[max(int(math.Ceil(q*float64(len(times)))), 1)-1]
		got := d.Quantile(q)
		require.GreaterOrEqual(t, got, exact)
		require.LessOrEqual(t, got, exact+exact/perOctave)
		require.Equal(t, times[len(times)-1], d.Quantile(1))
		require.Equal(t, times[len(times)-1], d.max)
		require.Equal(t, len(times), d.Count())
	})
}

func TestNoTimesHaveNoQuantile(t *testing.T) {
	require.Zero(t, NewDistribution().Quantile(0.5))
	summary := NewDistribution(200*time.Nanosecond, time.Second, -time.Second).Summary()
	encoded, err := json.Marshal(summary)
	require.NoError(t, err)
	require.JSONEq(t, `{"count": 3, "p50": 2e-7, "p99": 1, "p999": 1, "max": 1}`, string(encoded))
	var read Summary
	require.NoError(t, json.Unmarshal(encoded, &read))
	require.Equal(t, *summary, read)
}

func TestProc(t *testing.T) {
	cpu, err := cpuOf([]byte("1 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 5"))
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, cpu)
	_, err = cpuOf([]byte("1 (a) S 1"))
	require.Error(t, err)
	require.EqualValues(t, 12, field([]byte("VmPeak:\t 9 kB\nVmRSS:\t    12 kB\n"), "VmRSS:"))
	require.EqualValues(t, 3,
		tcpMemory([]byte("sockets: used 9\nTCP: inuse 5 orphan 0 tw 0 alloc 7 mem 3\nUDP: inuse 1 mem 8\n")))
	require.Equal(t, "AMD EPYC", textAfter([]byte("processor\t: 0\nmodel name\t: AMD EPYC\n"), "model name"))
}

func TestAProcessOfThisMachine(t *testing.T) {
	u, err := PID(os.Getpid()).Usage(t.Context())
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no /proc")
	}
	require.NoError(t, err)
	require.Positive(t, u.Resident)
	require.GreaterOrEqual(t, u.Peak, u.Resident)
	require.Positive(t, u.CPU)
}

// TestTheClockOfAProcessAgreesWithItsTicks: of this process, and of its parent, which is another.
func TestTheClockOfAProcessAgreesWithItsTicks(t *testing.T) {
	for _, p := range []PID{PID(os.Getpid()), PID(os.Getppid())} {
		ticks := func() time.Duration {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p))
			if errors.Is(err, os.ErrNotExist) {
				t.Skip("no /proc")
			}
			require.NoError(t, err)
			used, err := cpuOf(stat)
			require.NoError(t, err)
			return used
		}
		before := ticks()
		used, ok := cpuClock(p)
		require.True(t, ok)
		require.GreaterOrEqual(t, used+2*tick, before) // user and system are rounded apart
		require.LessOrEqual(t, used, ticks()+2*tick)
	}
}

func TestScrape(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.5\n" +
			"# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 4096\n" +
			"# TYPE go_memstats_mallocs_total counter\ngo_memstats_mallocs_total 7\n" +
			"# TYPE go_cpu_classes_gc_total_cpu_seconds_total counter\ngo_cpu_classes_gc_total_cpu_seconds_total " +
			"0.25\n" +
			"# TYPE istio_build gauge\nistio_build{component=\"pilot\",tag=\"1.31\"} 1\n"))
	}))
	defer server.Close()
	s := Scrape{URL: server.URL, Client: server.Client()}
	u, err := s.Usage(t.Context())
	require.NoError(t, err)
	require.Equal(t,
		Usage{At: u.At, CPU: 1500 * time.Millisecond, Resident: 4096, Allocations: 7,
			GCTime: 250 * time.Millisecond}, u)
	m, err := s.Metrics(t.Context())
	require.NoError(t, err)
	require.Equal(t, "1.31", m.Label("istio_build", "tag"))
}

func TestRoomOfThisMachine(t *testing.T) {
	require.Positive(t, ThisRoom().Descriptors)
	require.Positive(t, ThisRoom().Memory)
	dir := t.TempDir()
	_, limited := cgroupRoom(dir)
	require.False(t, limited)
	for file, content := range map[string]string{"memory.max": "max\n", "memory.current": "100\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
	}
	_, limited = cgroupRoom(dir)
	require.False(t, limited)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.max"), []byte("1000\n"), 0o600))
	left, limited := cgroupRoom(dir)
	require.True(t, limited)
	require.EqualValues(t, 900, left)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.stat"), []byte("anon 20\ninactive_file 30\n"), 0o600))
	left, _ = cgroupRoom(dir)
	require.EqualValues(t, 930, left)
}
