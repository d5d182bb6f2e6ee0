package measure

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsOfTheProgramAndOfTheProcess(t *testing.T) {
	const status = "Name:\tenvoy\nVmHWM:\t   70000 kB\nVmRSS:\t   64084 kB\n" +
		"RssAnon:\t   13908 kB\nRssFile:\t   50176 kB\n"
	const rollup = "Rss:               64084 kB\nPss:               31136 kB\nPss_Dirty:         13908 kB\n"
	require.Equal(t, Memory{
		Resident: 64084 << 10, File: 50176 << 10, Anonymous: 13908 << 10, Proportional: 31136 << 10,
	}, memoryOf([]byte(status), []byte(rollup)))

	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	m, err := PID(os.Getpid()).Memory()
	require.NoError(t, err)
	require.Positive(t, m.File)
	require.Positive(t, m.Anonymous)
	require.Positive(t, m.Proportional)
	require.GreaterOrEqual(t, m.Resident, m.File)
	_, err = PID(-1).Memory()
	require.ErrorContains(t, err, "process -1: ")
}
