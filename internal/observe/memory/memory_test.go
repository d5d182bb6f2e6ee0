package memory

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCgroupLimit(t *testing.T) {
	for name, c := range map[string]struct {
		membership string
		files      map[string]string
		want       int64
	}{
		"none":              {"0::/\n", nil, 0},
		"a container's own": {"0::/\n", map[string]string{"memory.max": "1073741824\n"}, 1 << 30},
		"no limit":          {"0::/\n", map[string]string{"memory.max": "max\n"}, 0},
		"the least of those above": {
			"0::/a/b\n", map[string]string{"a/b/memory.max": "max", "a/memory.max": "500", "memory.max": "600"}, 500,
		},
		"version 1": {
			"5:cpu:/x\n4:memory:/x\n0::/\n", map[string]string{"memory/x/memory.limit_in_bytes": "700\n"}, 700,
		},
		"version 1, the host's path": {
			"4:memory:/docker/x\n", map[string]string{"memory/memory.limit_in_bytes": "800\n"}, 800,
		},
		"version 1, no limit": {
			"4:memory:/x\n", map[string]string{"memory/x/memory.limit_in_bytes": "9223372036854771712\n"}, 0,
		},
		"version 1, other groups": {
			"4:cpu,memory:/x\nnonsense\n", map[string]string{"memory/x/memory.limit_in_bytes": "900\n"}, 900,
		},
		"not a number": {"0::/\n", map[string]string{"memory.max": "much\n"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{"proc/self/cgroup": {Data: []byte(c.membership)}}
			for name, content := range c.files {
				files["sys/fs/cgroup/"+name] = &fstest.MapFile{Data: []byte(content)}
			}
			n, ok := cgroupLimit(files)
			require.Equal(t, c.want > 0, ok)
			if ok {
				require.Equal(t, c.want, n)
			}
		})
	}
	_, ok := cgroupLimit(fstest.MapFS{})
	require.False(t, ok, "no Linux")
}

func TestGarbageTakesHalfAndSomeAtLeastUnlessSaid(t *testing.T) {
	before := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	TuneGC(func(name string) (string, bool) { return "77", name == "GOGC" })
	require.Equal(t, 77, debug.SetGCPercent(77))
	stop := TuneGC(func(string) (string, bool) { return "", false })
	t.Cleanup(stop)
	small := debug.SetGCPercent(77)
	require.Greater(t, small, 100, "little is in use")

	held := make([]byte, 2*minGarbage)
	require.Eventually(t, func() bool { // after a collection, or one that was under way
		runtime.GC()
		return gcPercent() == minPercent
	}, 10*time.Second, time.Millisecond)
	runtime.KeepAlive(held)
	require.Eventually(t, func() bool {
		runtime.GC()
		return gcPercent() > 100
	}, 10*time.Second, time.Millisecond)
}

// gcPercent is what the runtime is told at present.
func gcPercent() int {
	samples := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(samples)
	return int(samples[0].Value.Uint64())
}

func TestHowMuchGarbageThereMayBe(t *testing.T) {
	require.Equal(t, 4800, percentOf(0))
	require.Equal(t, 480, percentOf(10<<20))
	require.Equal(t, 50, percentOf(96<<20))
	require.Equal(t, 50, percentOf(1<<40))
}

func TestTheLimitThatIsSetWins(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	files := fstest.MapFS{
		"proc/self/cgroup":         {Data: []byte("0::/\n")},
		"sys/fs/cgroup/memory.max": {Data: []byte("10000000000\n")},
	}
	unset := func(string) (string, bool) { return "", false }
	set := func(name string) (string, bool) { return "8GiB", name == "GOMEMLIMIT" }

	l := ApplyLimit(files, unset)
	require.EqualValues(t, 9_000_000_000, l.Bytes)
	require.Equal(t, "cgroup", l.From)
	require.EqualValues(t, 9_000_000_000, debug.SetMemoryLimit(-1), "the runtime knows it")

	debug.SetMemoryLimit(8 << 30) // as the runtime does with the variable
	l = ApplyLimit(files, set)
	require.EqualValues(t, 8<<30, l.Bytes)
	require.Equal(t, "GOMEMLIMIT", l.From)

	debug.SetMemoryLimit(math.MaxInt64)
	require.Nil(t, ApplyLimit(files, set), "off")
	require.Nil(t, ApplyLimit(fstest.MapFS{}, unset))
	_ = ApplyLimit(os.DirFS("/"), set)
}

// What is in use makes it tight; garbage does not, and neither does what was in use once.
func TestMemoryIsTightByWhatIsInUse(t *testing.T) {
	const mib = 1 << 20
	l := newLimit(200*mib, "a test")
	require.False(t, l.Tight())
	for range 300 {
		runtime.KeepAlive(make([]byte, mib))
	}
	require.False(t, l.Tight(), "garbage")
	held := make([]byte, 200*mib)
	runtime.GC()
	require.True(t, l.Tight())
	runtime.KeepAlive(held) // until here
	l.collected = l.collected.Add(-minCollectInterval)
	require.False(t, l.Tight(), "it looks again")
}
