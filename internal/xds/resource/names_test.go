package resource

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestANameTableHasTheBodiesOfAllNames(t *testing.T) {
	store := NewStore()
	a, b := New("a.test", []byte("a")), New("b.test", []byte("bb"))
	names := store.Build(a, b)
	s := NewState(1).With(Name, names)
	table := s.NameTable().Get("")
	require.NotNil(t, table)
	require.Equal(t, 1, s.NameTable().Len())
	require.Equal(t, 3, table.Size())
	require.Len(t, table.Body(), 3)
	for r := range names.All() {
		require.Contains(t, string(table.Body()), string(r.Body()))
	}
	require.Same(t, s.NameTable(), s.At(2).NameTable(), "it is made once")

	changed := s.With(Name, store.Build(a, New("b.test", []byte("cc"))))
	require.NotEqual(t, table.Version(), changed.NameTable().Get("").Version())
	require.Equal(t, table.Version(), s.Fork().NameTable().Get("").Version())
}

func TestTheNameTableIsThereWithoutNames(t *testing.T) {
	table := NewState(1).NameTable().Get("")
	require.NotNil(t, table)
	require.Empty(t, table.Body())
}
