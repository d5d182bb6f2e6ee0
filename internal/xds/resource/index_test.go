package resource

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func namesSet(n int) *Set {
	list := make([]*Resource, n)
	for i := range list {
		list[i] = New(fmt.Sprint("r", i), fmt.Append(nil, i))
	}
	return NewStore().Build(list...)
}

func TestAnIndexFindsWhatTheSetHas(t *testing.T) {
	set := namesSet(100)
	x := NewDiffer(1).Index(set)
	require.Equal(t, set.Len(), x.Len())
	found := map[int]bool{}
	for r := range set.All() {
		f, ok := x.Find([]byte(r.Name()))
		require.True(t, ok)
		require.Same(t, r, x.At(f.Place()))
		found[f.Place()] = true
	}
	require.Len(t, found, set.Len())
	_, ok := x.Find([]byte("r100"))
	require.False(t, ok)
}

func TestIndexesAreKeptUpToALimit(t *testing.T) {
	x := indexCache{limit: 100}
	large, some, more := namesSet(101), namesSet(60), namesSet(50)
	require.NotSame(t, x.of(large), x.of(large), "one that alone is more than the limit is not kept")
	first := x.of(some)
	require.Same(t, first, x.of(namesSet(60)), "equal sets have one")
	second := x.of(more)
	require.Same(t, second, x.of(more))
	require.NotSame(t, first, x.of(some), "the oldest was forgotten")
	require.Equal(t, 60, x.size)
	require.Len(t, x.order, 1)
}

func TestAnIndexComparesWhatClientsReport(t *testing.T) {
	shared, own := New("shared", []byte("body")), New("own", []byte("body"))
	own.placeholders = true
	x := NewDiffer(1).Index(NewStore().Build(shared, own))
	client, another := Overlay{Pod: "10.0.0.1"}, Overlay{Pod: "10.0.0.2"}
	is := func(name, version string, client Overlay) bool {
		f, ok := x.Find([]byte(name))
		require.True(t, ok)
		return x.Is(&f, []byte(version), &client)
	}
	v := shared.Version().String()
	require.True(t, is("shared", v, client))
	require.True(t, is("own", client.Version(own).String(), client))
	require.False(t, is("own", client.Version(own).String(), another))
	require.False(t, is("own", own.Version().String(), client))
	for _, other := range []string{"", v[1:], v + "A", "another control plane's", New("r", nil).Version().String()} {
		require.False(t, is("shared", other, client))
	}
}
