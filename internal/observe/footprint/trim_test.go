package footprint

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const smaps = `00400000-008cb000 r-xp 00000000 fe:00 1088                   /usr/local/bin/lateen-agent
Size:               4908 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
008cb000-00e0a000 r--p 004cb000 fe:00 1088                   /usr/local/bin/lateen-agent
Anonymous:             4 kB
00e0a000-00e9a000 rw-p 00a0a000 fe:00 1088                   /usr/local/bin/lateen-agent
Anonymous:             0 kB
00e9a000-00eaa000 r--p 00a0a000 fe:00 1088                   /usr/local/bin/lateen-agent
00eaa000-00eba000 r--p 00a1a000 fe:00 1088                   /usr/local/bin/lateen-agent
Anonymous:             0 kB
Swap:                  8 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:           512 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:00 2              /usr/lib/libc with space.so
Anonymous:             0 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0      [vsyscall]
Anonymous:             0 kB
`

func TestOnlyUnchangedPagesOfTheProgramAreDropped(t *testing.T) {
	all, err := mappings(strings.NewReader(smaps))
	require.NoError(t, err)
	var dropped []uintptr
	for _, m := range all {
		if m.droppable("/usr/local/bin/lateen-agent") {
			dropped = append(dropped, m.start)
		}
	}
	require.Equal(t, []uintptr{0x400000}, dropped)
	require.Equal(t, "/usr/lib/libc with space.so", all[5].file)
}

func TestTrimMakesTheProcessSmaller(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	before := residentFile(t)
	require.NoError(t, Trim())
	require.Less(t, residentFile(t), before)
}

// residentFile returns the kB of files that are mapped.
func residentFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "RssFile:")
	require.True(t, found)
	kB, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kB
}

func FuzzMappings(f *testing.F) {
	f.Add(smaps)
	f.Fuzz(func(t *testing.T, text string) {
		all, _ := mappings(strings.NewReader(text))
		for _, m := range all {
			require.False(t, m.droppable("/x") && m.writable)
		}
	})
}
