package config

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
)

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

func TestDefaultsAreIstios(t *testing.T) {
	c, err := FromEnv(lookup(nil))
	require.NoError(t, err)
	require.Equal(t, Config{
		DebounceAfter:     100 * time.Millisecond,
		DebounceMax:       10 * time.Second,
		DebounceEarly:     20 * time.Millisecond,
		DebounceSteady:    150 * time.Millisecond,
		DebounceMoves:     2 * time.Second,
		EDSDebounce:       true,
		MaxRecvMsgSize:    8 << 20,
		HistoryBytes:      32 << 20,
		StreamsPerAddress: 2048,
		TokenAudiences:    []string{"istio-ca"},
		Status:            true,
		Inject:            true,
		DeployGateways:    true,
		RegisterMachines:  true,
		TakeHealth:        true,
		MachineGrace:      10 * time.Second,
		NativeSidecars:    "auto",
		AutoPrefix4:       netip.MustParsePrefix("240.240.0.0/16"),
		AutoPrefix6:       netip.MustParsePrefix("2001:2::/48"),
		KeyRefresh:        20 * time.Minute,

		RootsName: "istio-ca-root-cert",

		CA: true, WorkloadCertTTL: 24 * time.Hour, MaxWorkloadCertTTL: 90 * 24 * time.Hour,
	}, c)
}

func TestVariablesAreRead(t *testing.T) {
	sampling := uint32(26) // hundredths of a percent
	c, err := FromEnv(lookup(map[string]string{
		"PILOT_DEBOUNCE_AFTER":                           "2.5s",
		"PILOT_DEBOUNCE_MAX":                             "30s",
		"PILOT_ENABLE_EDS_DEBOUNCE":                      "false",
		"PILOT_ENABLE_PERSISTENT_SESSION_FILTER":         "true",
		"LATEEN_DEBOUNCE_MOVES":                          "0s",
		"PILOT_PUSH_THROTTLE":                            "100",
		"PILOT_MAX_REQUESTS_PER_SECOND":                  "12.5",
		"PILOT_XDS_SEND_TIMEOUT":                         "5s",
		"LATEEN_MAX_STREAMS_PER_ADDRESS":                 "7",
		"TOKEN_AUDIENCES":                                "mine, ours,",
		"PILOT_ENABLE_STATUS":                            "false",
		"PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER": "false",
		"PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION":   "false",
		"PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS":       "false",
		"PILOT_WORKLOAD_ENTRY_GRACE_PERIOD":              "0s",
		"INJECT_ENABLED":                                 "false",
		"ENABLE_NATIVE_SIDECARS":                         "true",
		"K8S_INGRESS_NS":                                 "edge",
		"PILOT_FILTER_GATEWAY_CLUSTER_CONFIG":            "false",
		"PILOT_SCOPE_GATEWAY_TO_NAMESPACE":               "true",
		"PILOT_HTTP10":                                   "1",
		"PILOT_SIDECAR_USE_REMOTE_ADDRESS":               "true",
		"PILOT_TRACE_SAMPLING":                           "0.255",
		"ENABLE_DEBUG_ON_HTTP":                           "false",
		"BLOCKED_CIDRS_IN_JWKS_URIS":                     "10.0.0.0/8, 192.168.1.0/24",
		"LATEEN_ENABLE_VHDS":                             "false",
		"LATEEN_ENABLE_LEDS":                             "0",
		"LATEEN_ENABLE_FILTER_LISTS":                     "false",
		"ISTIO_DUAL_STACK":                               "true",
		"ENABLE_CA_SERVER":                               "false",
		"DEFAULT_WORKLOAD_CERT_TTL":                      "1h",
		"MAX_WORKLOAD_CERT_TTL":                          "48h",
		"PILOT_CA_CERT_CONFIGMAP":                        "roots",
		"PILOT_ENABLE_CA_CRL":                            "false",
		"COMPLIANCE_POLICY":                              "fips-140-3",
		"CA_TRUSTED_NODE_ACCOUNTS":                       "istio-system/ztunnel,a/b",
		"LATEEN_RENEW_BY_CERTIFICATE":                    "false",
		"EXTERNAL_CA":                                    "ISTIOD_RA_KUBERNETES_API",
		"K8S_SIGNER":                                     "example.com/mesh",
		"CERT_SIGNER_DOMAIN":                             "issuers.example.com",
		"PILOT_CERT_PROVIDER":                            "k8s.io/example.com/istiod",
		"PILOT_IP_AUTOALLOCATE_IPV4_PREFIX":              "10.9.8.7/20",
		"PILOT_IP_AUTOALLOCATE_IPV6_PREFIX":              "fd00:9::/64",
		"PILOT_JWT_PUB_KEY_REFRESH_INTERVAL":             "7m",
		"LATEEN_HISTORY_BYTES":                           "1000",
		"LATEEN_HISTORY_DIR":                             "/var/lib/lateen",
		"LATEEN_CHANGE_WARNS_AT":                         "100",
		"LATEEN_CHANGE_REFUSED_AT":                       "2000",
		"LATEEN_JWKS_PRIVATE_NETWORKS":                   "10.0.0.0/8, fd00::/8",
	}))
	require.NoError(t, err)
	require.Equal(t, Config{
		DebounceAfter:        2500 * time.Millisecond,
		DebounceMax:          30 * time.Second,
		Sessions:             true,
		PushThrottle:         100,
		MaxRequestsPerSecond: 12.5,
		SendTimeout:          5 * time.Second,
		StreamsPerAddress:    7,
		MaxRecvMsgSize:       8 << 20,
		HistoryBytes:         1000,
		HistoryDir:           "/var/lib/lateen",
		ChangeWarnsAt:        100,
		ChangeRefusedAt:      2000,
		TokenAudiences:       []string{"mine", "ours"},
		WorkloadCertTTL:      time.Hour,
		MaxWorkloadCertTTL:   48 * time.Hour,
		RootsName:            "roots",
		IgnoreRevoked:        true,
		Compliance:           compliance.FIPS1403,
		NodeAccounts:         []string{"istio-system/ztunnel", "a/b"},
		RenewByTokens:        true,
		AllClusters:          true,
		OwnGateways:          true,
		HTTP10:               true,
		RemoteAddress:        true,
		Sampling:             &sampling,
		NoDebugPages:         true,
		BlockedKeyNetworks: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.1.0/24"),
		},
		WholeRoutes:      true,
		WholeEndpoints:   true,
		WholeListeners:   true,
		DualStack:        true,
		Status:           false,
		NativeSidecars:   "true",
		IngressNamespace: "edge",
		AutoPrefix4:      netip.MustParsePrefix("10.9.0.0/20"),
		AutoPrefix6:      netip.MustParsePrefix("fd00:9::/64"),
		ExternalCA:       true,
		Signer:           "example.com/mesh",
		SignerDomain:     "issuers.example.com",
		ServingSigner:    "example.com/istiod",
		KeyRefresh:       7 * time.Minute,
		KeyNetworks:      []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
	}, c)
}

func TestABadValueIsNamed(t *testing.T) {
	for name, value := range map[string]string{
		"PILOT_DEBOUNCE_AFTER":                           "100",
		"PILOT_ENABLE_EDS_DEBOUNCE":                      "maybe",
		"PILOT_PUSH_THROTTLE":                            "-1",
		"PILOT_MAX_REQUESTS_PER_SECOND":                  "NaN",
		"TOKEN_AUDIENCES":                                ", ",
		"PILOT_ENABLE_STATUS":                            "perhaps",
		"PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER": "x",
		"PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION":   "x",
		"PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS":       "x",
		"PILOT_WORKLOAD_ENTRY_GRACE_PERIOD":              "x",
		"INJECT_ENABLED":                                 "maybe",
		"ENABLE_NATIVE_SIDECARS":                         "always",
		"K8S_INGRESS_NS":                                 "Edge",
		"PILOT_CA_CERT_CONFIGMAP":                        "a/b",

		"EXTERNAL_CA":                       "ISTIOD_RA_ISTIO_API",
		"K8S_SIGNER":                        "mesh",
		"PILOT_CERT_PROVIDER":               "k8s.io/mesh",
		"PILOT_IP_AUTOALLOCATE_IPV4_PREFIX": "2001:2::/48",
		"PILOT_IP_AUTOALLOCATE_IPV6_PREFIX": "2001:2::/127",
		"LATEEN_JWKS_PRIVATE_NETWORKS":      "10.0.0.1/8",
	} {
		_, err := FromEnv(lookup(map[string]string{name: value}))
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, value)
		require.ErrorContains(t, err, "want")
	}
}

func TestExternalAuthorityNeedsASigner(t *testing.T) {
	env := map[string]string{"EXTERNAL_CA": "ISTIOD_RA_KUBERNETES_API", "PILOT_CERT_PROVIDER": "istiod"}
	_, err := FromEnv(lookup(env))
	require.ErrorContains(t, err, "want K8S_SIGNER or CERT_SIGNER_DOMAIN")
	env["CERT_SIGNER_DOMAIN"] = "example.com" // proxies name their signers
	c, err := FromEnv(lookup(env))
	require.NoError(t, err)
	require.Empty(t, c.ServingSigner)
}

func TestWhoSetsTheDebounceMeansIt(t *testing.T) {
	for _, c := range []struct {
		env    map[string]string
		early  time.Duration
		steady time.Duration
	}{
		{map[string]string{}, 20 * time.Millisecond, 150 * time.Millisecond},
		{map[string]string{"PILOT_DEBOUNCE_AFTER": "100ms"}, 0, 0},
		{map[string]string{"PILOT_DEBOUNCE_MAX": "10s"}, 20 * time.Millisecond, 0},
		{map[string]string{"PILOT_DEBOUNCE_AFTER": "1s", "LATEEN_DEBOUNCE_EARLY": "50ms"}, 50 * time.Millisecond, 0},
		{
			map[string]string{"PILOT_DEBOUNCE_MAX": "1s", "LATEEN_DEBOUNCE_STEADY": "1s"}, 20 * time.Millisecond,
			time.Second,
		},
		{map[string]string{"LATEEN_DEBOUNCE_EARLY": "0s"}, 0, 150 * time.Millisecond},
	} {
		settings, err := FromEnv(lookup(c.env))
		require.NoError(t, err)
		require.Equal(t, c.early, settings.DebounceEarly, c.env)
		require.Equal(t, c.steady, settings.DebounceSteady, c.env)
	}
}
