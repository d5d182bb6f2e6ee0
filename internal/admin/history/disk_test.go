package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// remembered are all generations of a Store.
func remembered(s *Store) []page.Generation {
	all, _ := s.Select(Query{Limit: 1 << 20})
	return all
}

// reloaded is what another process remembers of a directory.
func reloaded(t *testing.T, dir string) ([]page.Generation, error) {
	t.Helper()
	d, err := NewDisk(dir, 1<<20)
	require.NoError(t, err)
	s := NewStore(64 << 20)
	err = d.Load(s)
	return remembered(s), err
}

// TestWhatIsOnDiskSurvives: generations and what became of them, those of several processes, up to
// where a file is broken off.
func TestWhatIsOnDiskSurvives(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(64 << 20)
	for process := range 2 {
		d, err := NewDisk(dir, 1<<20)
		require.NoError(t, err)
		for n := range 300 {
			e := generationOf(process*300 + n)
			e.Delivery = nil
			require.NoError(t, d.write(record{Entry: e}))
			settled := Settled{Generation: e.Generation.Generation, Delivery: page.Delivery{Proxies: n}}
			require.NoError(t, d.write(record{Settled: &settled}))
			s.add(e)
			s.Settle(settled.Generation, settled.Delivery)
		}
		require.NoError(t, d.Close())
	}
	all, err := reloaded(t, dir)
	require.NoError(t, err)
	require.Equal(t, remembered(s), all)

	files, err := filepath.Glob(filepath.Join(dir, diskGlob))
	require.NoError(t, err)
	whole, err := os.ReadFile(files[1])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[1], whole[:len(whole)/2], 0o600))
	cut, err := reloaded(t, dir)
	require.NoError(t, err)
	require.Greater(t, len(cut), 300)
	require.Less(t, len(cut), 600)
	kept := all[len(all)-len(cut):]
	cut[0].Delivery = kept[0].Delivery // which may have been broken off
	require.Equal(t, kept, cut)

	whole[len(whole)/2] ^= 0xff
	require.NoError(t, os.WriteFile(files[1], whole, 0o600))
	require.NoError(t, os.WriteFile(files[0], []byte("lateen history 9\n"), 0o600))
	broken, err := reloaded(t, dir) // what follows either has a gap before it
	require.ErrorContains(t, err, "is no history of this version of Lateen")
	require.Less(t, len(broken), 300)
}

// TestTheDiskHasALimit: the oldest files go.
func TestTheDiskHasALimit(t *testing.T) {
	const limit = 100_000
	dir := t.TempDir()
	d, err := NewDisk(dir, limit)
	require.NoError(t, err)
	for n := range 3000 {
		e := generationOf(n)
		e.Undo[0].Body = fmt.Appendf(nil, "%x", resourceOf(n))
		require.NoError(t, d.write(record{Entry: e}))
	}
	files, err := d.files()
	require.NoError(t, err)
	require.Greater(t, len(files), 2)
	total := int64(0)
	for _, name := range files {
		info, err := os.Stat(name)
		require.NoError(t, err)
		total += info.Size()
	}
	require.LessOrEqual(t, total, int64(limit))
	all, err := reloaded(t, dir)
	require.NoError(t, err)
	require.Equal(t, uint64(2999), all[0].Generation)
	require.NoError(t, d.Close())
}

// resourceOf is a body that cannot be compressed much.
func resourceOf(n int) (body []byte) {
	for i := range 10 {
		v := versionFor(n*10 + i)
		body = append(body, v[:]...)
	}
	return body
}

// TestADiskThatFailsIsTriedAgain: a generation is remembered in memory all the same.
func TestADiskThatFailsIsTriedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	d, err := NewDisk(dir, 1<<20)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir))
	var failed []error
	r := NewRecorder(Options{
		Store: NewStore(1 << 20), Disk: d, Failed: func(err error) { failed = append(failed, err) },
	})
	r.write(record{Entry: generationOf(1)})
	require.Len(t, failed, 1)
	require.ErrorIs(t, failed[0], os.ErrNotExist)
	require.NoError(t, os.Mkdir(dir, 0o700))
	r.write(record{Entry: generationOf(2)})
	require.Len(t, failed, 1)
	require.NoError(t, d.file.Close()) // as if the disk were full
	r.write(record{Entry: generationOf(3)})
	require.Len(t, failed, 2)
	require.True(t, errors.Is(failed[1], os.ErrClosed))
	r.write(record{Entry: generationOf(4)})
	require.NoError(t, d.Close())
	again := NewStore(64 << 20)
	require.NoError(t, d.Load(again))
	require.Len(t, again.tail, 2)
	for _, e := range again.tail {
		require.True(t, e.Gap, "one before it is missing")
	}
}
