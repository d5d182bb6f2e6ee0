package inspect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
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
	printStatus(console.Plain(&out), report)
	require.Equal(t, strings.Join([]string{
		"PROXY      TYPE     MTLS    CDS     EDS       LDS       RDS       VHDS      SDS       CONFIG",
		"a.default  sidecar  STRICT  SYNCED  NOT_SENT  NOT_SENT  NOT_SENT  NOT_SENT  NOT_SENT  0 B",
		"b.default  router   -       SYNCED  NOT_SENT  NOT_SENT  NOT_SENT  NACK      NACK      1.2 kB",
		"b.default refused vhds: bad regex; it keeps its last version of http.80/a, http.80/b",
		"b.default refused sds: it keeps its last version of cert",
		"no problems in the mesh's objects",
		"",
	}, "\n"), out.String())
}
