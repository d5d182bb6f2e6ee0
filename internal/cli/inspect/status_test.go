package inspect

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// TestStatusShowsWhatIsRefused: of every type that a proxy has asked for, also of those that few
// proxies have.
func TestStatusShowsWhatIsRefused(t *testing.T) {
	synced := page.TypeStatus{Type: "cds", State: page.Synced}
	report := statusReport{Proxies: []proxyLine{
		{SyncStatus: page.SyncStatus{
			ProxyID: "a.default", ProxyType: "sidecar", MutualTLS: page.StrictMutualTLS,
			Resources: map[string]page.TypeStatus{resource.Cluster.URL(): synced}}},
		{SyncStatus: page.SyncStatus{
			ProxyID: "b.default", ProxyType: "router", ConfigBytes: 1200, Resources: map[string]page.TypeStatus{
				resource.Cluster.URL(): synced,
				resource.VirtualHost.URL(): {Type: "vhds", State: page.Nack, LastError: "bad regex",
					Quarantined: []string{"http.80/a", "http.80/b"}},
				resource.Secret.URL(): {Type: "sds", State: page.Nack, Quarantined: []string{"cert"}},
			}}},
	}}
	var out strings.Builder
	printStatus(console.Plain(&out), report, true)
	require.Equal(t, strings.Join([]string{
		"PROXY      TYPE     MTLS    CDS     EDS       LDS       RDS       VHDS      SDS       CONFIG",
		"a.default  sidecar  STRICT  SYNCED  NOT_SENT  NOT_SENT  NOT_SENT  NOT_SENT  NOT_SENT  0 B",
		"b.default  router   -       SYNCED  NOT_SENT  NOT_SENT  NOT_SENT  NACK      NACK      1.2 kB",
		"b.default refused vhds: bad regex; it keeps its last version of http.80/a, http.80/b",
		"b.default refused sds: it keeps its last version of cert",
		"no problems in the mesh's objects",
		"",
	}, "\n"), out.String())
	out.Reset()
	printStatus(console.Plain(&out), report, false)
	require.Equal(t, strings.Join([]string{
		"PROXY      TYPE     MTLS    SYNC                                      CONFIG",
		"a.default  sidecar  STRICT  NOT_SENT: EDS, LDS, RDS                   0 B",
		"b.default  router   -       NACK: VHDS, SDS; NOT_SENT: EDS, LDS, RDS  1.2 kB",
	}, "\n"), strings.Join(strings.Split(out.String(), "\n")[:3], "\n"))
}

// TestStatusFits80Columns with the names that ReplicaSets give, of one and of several replicas.
func TestStatusFits80Columns(t *testing.T) {
	synced := map[string]page.TypeStatus{}
	for _, typ := range []resource.Type{resource.Cluster, resource.Endpoint, resource.Listener, resource.Route} {
		synced[typ.URL()] = page.TypeStatus{Type: typ.String(), State: page.Synced}
	}
	names := []string{
		"reviews-v1-t68x7gqs5-527bt", "reviews-v1-t68x7gqs5-gsg74", "reviews-v2-tqpdqntls-zfq97",
		"reviews-v3-sq57wz2l7-ht5gt", "ingressgateway-8bbzpgks8-nfvms",
	}
	for _, replicas := range []int{1, 2} {
		var report statusReport
		for i := range replicas {
			report.Replicas = append(report.Replicas, replicaLine{Name: fmt.Sprintf("istiod-7c9d8f6b5-x2x4%d", i)})
		}
		for i, name := range names {
			report.Proxies = append(report.Proxies, proxyLine{
				Replica: report.Replicas[i%replicas].Name,
				SyncStatus: page.SyncStatus{
					ProxyID: name + ".default", ProxyType: "sidecar", MutualTLS: page.PermissiveMutualTLS,
					ConfigBytes: 13700, Resources: synced,
				},
			})
		}
		var out strings.Builder
		printStatus(terminal.New(&out, func(name string) string {
			return map[string]string{"COLUMNS": "80"}[name]
		}), report, false)
		lines := strings.Split(out.String(), "\n")[1 : 1+len(names)]
		shown := map[string]bool{}
		for i, line := range lines {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
			fields := strings.Fields(line)
			require.Contains(t, fields, "SYNCED")
			shown[fields[0]] = true
			end := strings.Split(names[i], "-")
			require.True(t, strings.HasSuffix(fields[0], end[len(end)-1]+".default"), line)
			if replicas > 1 {
				require.True(t, strings.HasSuffix(line, report.Proxies[i].Replica[len("istiod-7c9d8f6b5-"):]), line)
			} else {
				require.Equal(t, names[i]+".default", fields[0], "there is room for the whole name")
			}
		}
		require.Len(t, shown, len(names), out.String())
	}
}

// TestGuideShowsTheTables that the program prints: their columns, and not what is in them.
func TestGuideShowsTheTables(t *testing.T) {
	console.Shows(t, console.LocalGuide, strings.Join(proxyTable(statusReport{}, nil, false).Header, " "))
	for _, s := range sections() {
		if s.kind == "endpoints" {
			console.Shows(t, console.LocalGuide, strings.Join(s.header, " "))
		}
	}
}
