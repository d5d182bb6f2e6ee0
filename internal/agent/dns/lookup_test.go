package dns

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/nametable"
)

var inDefault = names{
	namespace: "default", domain: "svc.cluster.local", search: "default.svc.cluster.local",
}

func service(name, namespace string, ips ...string) nametable.Name {
	return nametable.Name{
		Host: name + "." + namespace + ".svc.cluster.local", IPs: ips,
		Registry: nametable.Kubernetes, ShortName: name, Namespace: namespace,
	}
}

func external(host string, ips ...string) nametable.Name {
	return nametable.Name{Host: host, IPs: ips, Registry: nametable.External}
}

func sampleTable() *Table {
	t := NewTable()
	t.Replace([]nametable.Name{
		service("reviews", "default", "10.0.0.1"),
		service("ratings", "shop", "10.0.0.2"),
		service("db", "default", "10.1.0.1", "10.1.0.2"),
		service("db-0.db", "default", "10.1.0.1"),
		external("API.example.com", "240.240.0.7", "2001:2::7"),
		external("*.wild.example.com", "240.240.0.8"),
		external("*.example.com", "240.240.0.9"),
		external("local.cluster.local", "240.240.0.10"),
		external("empty.test"),
		external("broken.test", "nonsense"),
	})
	return t
}

func TestNamesAreFoundByTheFormsThatCallersUse(t *testing.T) {
	table := sampleTable()
	for question, want := range map[string]struct{ address, alias string }{
		"reviews.default.svc.cluster.local":         {"10.0.0.1", ""},
		"reviews.default.svc":                       {"10.0.0.1", ""},
		"reviews.default":                           {"10.0.0.1", ""},
		"reviews":                                   {"10.0.0.1", ""},
		"ratings.shop":                              {"10.0.0.2", ""},
		"ratings.shop.svc":                          {"10.0.0.2", ""},
		"db-0.db":                                   {"10.1.0.1", ""},
		"db-0.db.default.svc.cluster.local":         {"10.1.0.1", ""},
		"api.example.com":                           {"240.240.0.7", ""},
		"other.example.com":                         {"240.240.0.9", ""},
		"a.b.example.com":                           {"240.240.0.9", ""},
		"a.wild.example.com":                        {"240.240.0.8", ""},
		"local.cluster.local":                       {"240.240.0.10", ""},
		"ratings.shop.default.svc.cluster.local":    {"10.0.0.2", "ratings.shop"},
		"api.example.com.default.svc.cluster.local": {"240.240.0.7", "api.example.com"},
		"x.example.com.default.svc.cluster.local":   {"240.240.0.9", "x.example.com"},
		"ratings.shop.svc.cluster.local.default.svc.cluster.local": {"10.0.0.2", "ratings.shop.svc.cluster.local"},
	} {
		to, known := table.lookup(question, &inDefault)
		require.True(t, known, question)
		require.Equal(t, netip.MustParseAddr(want.address), to.v4[0], question)
		require.Equal(t, want.alias, to.alias, question)
	}
	for _, question := range []string{
		"ratings",         // of another namespace
		"ratings.default", // likewise
		"ratings.default.svc.cluster.local",
		"api.example.com.svc.cluster.local", // the first search domain alone is looked for
		"example.com",                       // a wildcard is not its parent
		"local",                             // no Kubernetes name, so it has no short form
		"reviews.default.svc.cluster",
		"empty.test", "broken.test", "other.test", "", "*", "com",
	} {
		_, known := table.lookup(question, &inDefault)
		require.False(t, known, question)
	}
}

func TestWithoutDomainAndSearchOnlyWholeNamesAreFound(t *testing.T) {
	table := sampleTable()
	_, known := table.lookup("reviews.default.svc.cluster.local", &names{})
	require.True(t, known)
	for _, question := range []string{"reviews", "reviews.default", "api.example.com."} {
		_, known := table.lookup(question, &names{})
		require.False(t, known, question)
	}
}

func resource(version string, n nametable.Name) Resource {
	return Resource{Name: n.Host, Version: version, Body: nametable.Append(nil, &n)}
}

func TestOneNameIsUpdatedAtATime(t *testing.T) {
	table := NewTable()
	require.False(t, table.Ready())
	require.NoError(t, table.Update([]Resource{
		resource("1", external("a.test", "192.0.2.1")), resource("1", external("b.test", "192.0.2.2")),
		resource("1", external("none.test")),
	}, nil))
	require.True(t, table.Ready())
	require.Equal(t, map[string]string{"a.test": "1", "b.test": "1", "none.test": "1"}, table.Versions())

	changed := []Resource{resource("2", external("a.test", "192.0.2.9"))}
	require.NoError(t, table.Update(changed, []string{"b.test", "c.test"}))
	to, known := table.lookup("a.test", &inDefault)
	require.True(t, known)
	require.Equal(t, "192.0.2.9", to.v4[0].String())
	_, known = table.lookup("b.test", &inDefault)
	require.False(t, known)
	_, known = table.lookup("none.test", &inDefault)
	require.False(t, known)

	broken := Resource{Name: "c.test", Version: "1", Body: []byte{0xff}}
	changed = []Resource{resource("3", external("a.test", "192.0.2.8")), broken}
	require.Error(t, table.Update(changed, []string{"a.test"}))
	require.Equal(t, "2", table.Versions()["a.test"], "a response that is refused changes nothing")
}

// The whole agent may take 15 MB.
func TestTenThousandNamesTakeLessThanFourMegabytes(t *testing.T) {
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	table := NewTable()
	var list []nametable.Name
	for i := range 10000 {
		ip := fmt.Sprintf("10.%d.%d.1", i/250, i%250)
		list = append(list, service(fmt.Sprintf("service-%d", i), "some-namespace", ip))
	}
	table.Replace(list)
	list = nil
	require.Empty(t, list)
	require.Less(t, used()-before, uint64(4<<20))
	require.Equal(t, 10000, table.Len())
}
