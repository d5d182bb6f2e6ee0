package cpulimit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFindsTheControllerOfCPU(t *testing.T) {
	v2, bare := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(v2, "cgroup.controllers"), []byte("cpuset cpu io\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(bare, "cgroup.controllers"), []byte("hugetlb\n"), 0o600))
	unified := func(root string) string { return "30 1 0:26 / " + root + " rw - cgroup2 cgroup2 rw\n" }
	const old = "31 1 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"32 1 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"

	for _, c := range []struct {
		mounts string
		want   Hierarchy
	}{
		{unified(v2), Hierarchy{v2, true}},
		{old + unified(v2), Hierarchy{v2, true}},
		{old + unified(bare), Hierarchy{"/sys/fs/cgroup/cpu,cpuacct", false}}, // hybrid: v2 without controllers
	} {
		h, err := parseMounts(c.mounts)
		require.NoError(t, err)
		require.Equal(t, c.want, h)
	}
	for _, none := range []string{
		"", unified(bare), "no mounts - \n", "32 1 0:28 / /x rw - cgroup cgroup rw,cpuset\n",
	} {
		_, err := parseMounts(none)
		require.ErrorContains(t, err, "has mounted none with the controller cpu")
	}
}

func TestWritesTheLimitOfBothVersions(t *testing.T) {
	for _, c := range []struct {
		v2     bool
		stat   string
		files  map[string]string
		waited time.Duration
	}{
		{
			true, "nr_periods 4\nthrottled_usec 1500\n", map[string]string{"cpu.max": "1000 100000"},
			1500 * time.Microsecond,
		},
		{false, "nr_periods 4\nthrottled_time 1500\n", map[string]string{
			"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "1000",
		}, 1500},
	} {
		h := Hierarchy{t.TempDir(), c.v2}
		g, err := h.New("group", 10)
		require.NoError(t, err)
		require.NoError(t, g.Add(4711))
		c.files["cgroup.procs"] = "4711"
		for file, want := range c.files {
			content, err := os.ReadFile(filepath.Join(g.dir, file))
			require.NoError(t, err)
			require.Equal(t, want, string(content))
		}
		require.NoError(t, g.write("cpu.stat", c.stat))
		waited, err := g.Throttled()
		require.NoError(t, err)
		require.Equal(t, c.waited, waited)
		_, err = Hierarchy{filepath.Join(h.root, "missing"), false}.New("group", 10)
		require.ErrorContains(t, err, "may not limit the CPU of others")
		require.NoError(t, os.RemoveAll(g.dir))
		require.NoError(t, g.Close(), "it is gone already")
	}
}

// TestHoldsAProcess needs root and the kernel's own control groups.
func TestHoldsAProcess(t *testing.T) {
	h, err := Find()
	if err != nil {
		t.Skip(err)
	}
	g, err := h.New("lateen-test", 100)
	require.NoError(t, err)
	spinning := exec.Command("sh", "-c", "while kill -0 $PPID; do :; done") // until the test's process has ended
	require.NoError(t, spinning.Start())
	defer func() {
		require.NoError(t, spinning.Process.Kill())
		_ = spinning.Wait() // it was killed
		require.NoError(t, g.Close())
	}()
	require.NoError(t, g.Add(spinning.Process.Pid))
	members, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(spinning.Process.Pid)+"\n", string(members))
	require.Eventually(t, func() bool {
		waited, err := g.Throttled()
		return err == nil && waited > 0
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, g.Set(1000))
}
