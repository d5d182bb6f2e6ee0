package admin_test

import (
	"encoding/json"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

const (
	syncz      = serve.InspectionType + "/syncz"
	configDump = serve.InspectionType + "/config_dump"
	anyPage    = serve.InspectionType
)

var (
	operator = serve.Identity{Namespace: "istio-system", ServiceAccount: "default"}
	tenant   = serve.Identity{Namespace: "default", ServiceAccount: "default"}
	stranger = serve.Identity{Namespace: "other", ServiceAccount: "default"}
)

func inspector(clients ...serve.Client) *admin.Inspector {
	mesh := model.DefaultMesh()
	w, _ := state.NewWriter().Apply([]state.Update{{
		Key:     source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"},
		Objects: []model.Object{&mesh},
	}})
	return admin.NewInspector(admin.Options{
		Version: "1.2.3", Pod: "lateen-0", Fleet: fleet(clients),
		RootNamespace: func() string { return "istio-system" },
		Ready:         func() error { return nil },
		Mesh:          admin.MeshOf(w),
	})
}

func TestInspectorShowsTheStateOfEachProxy(t *testing.T) {
	i := inspector(reviews(t))
	answer, err := i.Inspect(operator, syncz, nil)
	require.NoError(t, err)
	require.Len(t, answer.Resources, 1)
	var config statusv3.ClientConfig
	require.NoError(t, answer.Resources[0].Body.UnmarshalTo(&config))
	require.Equal(t, "sidecar~127.0.0.2~reviews-v1-0.default~default.svc.cluster.local", config.GetNode().GetId())
	require.Equal(t, map[string]any{"CLUSTER_ID": "Kubernetes", "NAMESPACE": "default", "ISTIO_VERSION": "1.31.1"},
		config.GetNode().GetMetadata().AsMap())
	got := map[string]string{}
	for _, c := range config.GetGenericXdsConfigs() {
		got[c.GetTypeUrl()] = c.GetConfigStatus().String()
	}
	require.Equal(t, map[string]string{
		resource.Cluster.URL(): "SYNCED", resource.Endpoint.URL(): "STALE", resource.Listener.URL(): "ERROR",
		resource.Route.URL(): "NOT_SENT",
	}, got)

	var replica struct {
		Component, ID string
		Info          struct{ Version string }
	}
	require.NoError(t, json.Unmarshal([]byte(answer.ControlPlane), &replica))
	require.Equal(t, "istiod", replica.Component)
	require.Equal(t, "lateen-0", replica.ID)
	require.Equal(t, "1.2.3", replica.Info.Version)
}

func TestInspectorDumpsAProxy(t *testing.T) {
	i := inspector(reviews(t))
	answer, err := i.Inspect(operator, configDump, []string{"reviews-v1-0.default"})
	require.NoError(t, err)
	var clusters adminv3.ClustersConfigDump
	require.NoError(t, answer.Resources[0].Body.UnmarshalTo(&clusters))
	require.Len(t, clusters.GetDynamicActiveClusters(), 1)

	answer, err = i.Inspect(operator, configDump, []string{"reviews-v1-1.default"})
	require.NoError(t, err)
	require.Len(t, answer.Resources, 1)
	require.Contains(t, string(answer.Resources[0].Body.GetValue()), "Proxy not connected to this Pilot instance",
		"istioctl asks the next replica")
}

func TestInspectorShowsPages(t *testing.T) {
	i := inspector(reviews(t))
	for name, want := range map[string]string{
		"mesh":                               `"TrustDomain": "cluster.local"`,
		"/debug/mesh":                        `"TrustDomain": "cluster.local"`,
		"syncz":                              `"proxy": "reviews-v1-0.default"`,
		"edsz?proxyID=reviews-v1-0.default":  `"clusterName": "out"`,
		"ecdsz?proxyID=reviews-v1-0.default": `{}`,
		"edsz":                               "You must provide a proxyID in the query string",
		"nothing":                            "404 page not found",
		"list":                               "/debug/mesh",
		"adsz":                               `"totalClients": 1`,
	} {
		answer, err := i.Inspect(operator, anyPage, []string{name})
		require.NoError(t, err, name)
		require.Equal(t, anyPage, answer.Resources[0].Body.GetTypeUrl())
		require.Contains(t, string(answer.Resources[0].Body.GetValue()), want, name)
	}
}

// TestInspectorTellsApartWhoAsks: the root namespace sees all, others their own proxies, and those
// without an identity nothing.
func TestInspectorTellsApartWhoAsks(t *testing.T) {
	i := inspector(reviews(t))
	for _, c := range []struct {
		who  serve.Identity
		typ  string
		name string
		code codes.Code
		says string // part of the answer; "" for an empty one
	}{
		{serve.Identity{}, syncz, "", codes.Unauthenticated, ""},
		{serve.Identity{}, anyPage, "mesh", codes.Unauthenticated, ""},
		{tenant, syncz, "", codes.OK, "reviews-v1-0"},
		{stranger, syncz, "", codes.OK, ""},
		{tenant, configDump, "reviews-v1-0.default", codes.OK, "inbound"},
		{stranger, configDump, "reviews-v1-0.default", codes.OK, "not connected"},
		{tenant, anyPage, "edsz?proxyID=reviews-v1-0.default", codes.OK, "out"},
		{stranger, anyPage, "edsz?proxyID=reviews-v1-0.default", codes.OK, "no proxy is connected"},
		{tenant, anyPage, "mesh", codes.PermissionDenied, ""},
		{tenant, anyPage, "syncz", codes.PermissionDenied, ""},
		{tenant, anyPage, "x/../edsz", codes.PermissionDenied, ""},
		{operator, anyPage, "", codes.OK, "404 page not found"},
		{operator, anyPage, "%zz", codes.InvalidArgument, ""},
		{operator, serve.InspectionType + "/none", "a", codes.InvalidArgument, ""},
	} {
		var names []string
		if c.typ != syncz {
			names = []string{c.name}
		}
		answer, err := i.Inspect(c.who, c.typ, names)
		require.Equal(t, c.code.String(), status.Code(err).String(), "%+v: %v", c, err)
		text := ""
		for _, r := range answer.Resources {
			text += string(r.Body.GetValue())
		}
		if c.code != codes.OK {
			require.Empty(t, text, "%+v", c)
			continue
		}
		require.Contains(t, text, c.says, "%+v", c)
		require.Equal(t, c.says == "", text == "", "%+v", c)
	}
	_, err := i.Inspect(operator, anyPage, []string{"mesh", "list"})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}
