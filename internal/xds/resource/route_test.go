package resource

import (
	"fmt"
	"slices"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestTheHeadOfATableSaysThatItsVirtualHostsComeByVHDS(t *testing.T) {
	head := NewTableHead("80", tableHead0(t, "80"))
	got := &routev3.RouteConfiguration{}
	require.NoError(t, proto.Unmarshal(head.Body(), got))
	require.True(t, proto.Equal(&routev3.RouteConfiguration{
		Name: "80",
		Vhds: &routev3.Vhds{ConfigSource: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			ResourceApiVersion:    corev3.ApiVersion_V3,
			InitialFetchTimeout:   &durationpb.Duration{},
		}},
	}, got), "%v", got)
	require.NoError(t, got.ValidateAll())
}

func tableHead0(t *testing.T, name string) []byte {
	b, err := proto.Marshal(&routev3.RouteConfiguration{Name: name})
	require.NoError(t, err)
	return b
}

func hostOf(table, name string, domains ...string) *Resource {
	var body []byte
	for _, d := range domains {
		body = protowire.AppendString(protowire.AppendTag(body, virtualHostDomains, protowire.BytesType), d)
	}
	return NewVirtualHost(table, name, body, Refs{})
}

// A virtual host is one resource in both forms of its table; only its name differs.
func TestBothFormsHaveTheSameVirtualHosts(t *testing.T) {
	store := NewStore()
	state := NewState(1)
	state = state.With(Route, store.Build(NewTableHead("80", tableHead0(t, "80")),
		NewTableHead("81", tableHead0(t, "81")), NewTableHead("82", tableHead0(t, "82"))))
	state = state.With(VirtualHost,
		store.Build(hostOf("80", "a:80", "a", "a:80"), hostOf("80", "b:80", "b"), hostOf("81", "a:81", "a"),
			hostOf("99", "lost", "l")))
	whole := map[string][]string{}
	for r := range state.Tables().All() {
		table := &routev3.RouteConfiguration{}
		require.Len(t, r.Body(), r.Size())
		require.NoError(t, proto.Unmarshal(r.Body(), table))
		require.Nil(t, table.GetVhds())
		require.Equal(t, r.Name(), table.GetName())
		whole[r.Name()] = []string{}
		for _, v := range table.GetVirtualHosts() {
			whole[r.Name()] = append(whole[r.Name()], fmt.Sprint(v.GetName(), v.GetDomains()))
		}
		slices.Sort(whole[r.Name()])
	}
	require.Equal(t, map[string][]string{"80": {"a:80[a a:80]", "b:80[b]"}, "81": {"a:81[a]"}, "82": {}}, whole)
	for r := range state.Set(VirtualHost).All() {
		v := &routev3.VirtualHost{}
		require.NoError(t, proto.Unmarshal(r.Body(), v))
		require.Equal(t, r.Name(), v.GetName(), "or Envoy would not remove it")
		require.Equal(t, v.GetDomains(), r.Domains())
	}
}

// Whole tables are put together from those of another state, whichever that is.
func TestWholeTablesHaveNoHistory(t *testing.T) {
	store := NewStore()
	heads := []*Set{
		Empty(), store.Build(NewTableHead("80", tableHead0(t, "80"))),
		store.Build(NewTableHead("80", tableHead0(t, "80")), NewTableHead("81", nil)),
	}
	hosts := []*Set{
		Empty(), store.Build(hostOf("80", "a", "a")), store.Build(hostOf("80", "a", "b"), hostOf("81", "a", "a")),
		store.Build(hostOf("81", "b", "b")),
	}
	made := newTables(store)
	for _, n := range []int{5, 7, 0, 11, 2, 3, 10, 1, 4, 8, 6, 9} {
		h, v := heads[n%3], hosts[n/3]
		require.Equal(t, newTables(store).of(h, v).Root(), made.of(h, v).Root())
	}
}

func TestUnderATable(t *testing.T) {
	store := NewStore()
	var all []*Resource
	for i := range 300 {
		all = append(all, hostOf(fmt.Sprint(i%30), fmt.Sprint("h", i), "d"))
	}
	set := store.Build(all...)
	for i := range 30 {
		n := 0
		for r := range set.Under(fmt.Sprint(i)) {
			table, _ := TableOf(r.Name())
			require.Equal(t, fmt.Sprint(i), table)
			n++
		}
		require.Equal(t, 10, n)
	}
	for range set.Under("30") {
		t.Fatal("there is none")
	}
}

func TestSameDomains(t *testing.T) {
	require.True(t, SameDomains(hostOf("t", "a", "x", "y"), hostOf("t", "b", "x", "y")))
	require.False(t, SameDomains(hostOf("t", "a", "x", "y"), hostOf("t", "a", "x")))
	require.False(t, SameDomains(hostOf("t", "a", "x"), hostOf("t", "a", "x", "y")))
	require.False(t, SameDomains(hostOf("t", "a", "x"), hostOf("t", "a", "y")))
}
