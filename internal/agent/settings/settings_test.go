package settings

import (
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
)

// pod is what the injector's template sets, at least.
func pod(more ...string) Sources {
	return Sources{
		Args: []string{"sidecar", "--domain", "shop.svc.cluster.local"},
		Environ: append([]string{
			"POD_NAME=reviews-v1-0", "POD_NAMESPACE=shop", "INSTANCE_IP=10.0.0.7", "SERVICE_ACCOUNT=reviews",
		}, more...),
		Files: fstest.MapFS{},
	}
}

func read(t *testing.T, s Sources) Settings {
	t.Helper()
	got, err := Read(s)
	require.NoError(t, err)
	return got
}

func TestDefaultsAreThoseOfPilotAgent(t *testing.T) {
	s := read(t, pod())
	require.Equal(t, "sidecar~10.0.0.7~reviews-v1-0.shop~shop.svc.cluster.local", s.Node.ID())
	require.Equal(t, "istio-proxy.shop", s.Node.Cluster)
	require.Equal(t, "cluster.local", s.Node.TrustDomain)
	require.Equal(t, uint16(15000), s.Envoy.AdminPort)
	require.Equal(t, uint16(15021), s.Envoy.StatusPort)
	require.Equal(t, uint16(15090), s.Envoy.MetricsPort)
	require.Equal(t, uint16(15020), s.Status.Port)
	require.Equal(t, 45*time.Second, s.Envoy.DrainTime)
	require.Equal(t, 5*time.Second, s.Envoy.TerminationDrain)
	require.Equal(t, "./etc/istio/proxy/XDS", s.Envoy.XDSSocket())
	require.Equal(t, "./var/run/secrets/workload-spiffe-uds/socket", s.Envoy.SDSSocket)
	require.Equal(t, "istiod.istio-system.svc:15012", s.ControlPlane.Address)
	require.Equal(t, "istiod.istio-system.svc", s.ControlPlane.ServerName)
	require.Equal(t, s.ControlPlane.Address, s.CA.Address)
	require.Equal(t, istiodRoot, s.CA.RootFile)
	require.Equal(t, 24*time.Hour, s.CA.TTL)
	require.Equal(t, slog.LevelInfo, s.Log.Level)
	require.False(t, s.DNS.Enabled)
	require.Empty(t, s.Notices)
}

func TestPlacesOfTheProxyConfigReplaceEachOther(t *testing.T) {
	sources := pod(`PROXY_CONFIG={"discoveryAddress":"b:1","concurrency":4,"proxyMetadata":{"ISTIO_META_B":"2"}}`)
	sources.Files = fstest.MapFS{
		"etc/istio/config/mesh": {Data: []byte(
			"defaultConfig:\n  discoveryAddress: a:1\n  drainDuration: 7s\n  proxyMetadata: {ISTIO_META_A: '1'}\n")},
		"etc/istio/pod/annotations": {Data: []byte(
			`proxy.istio.io/config="terminationDrainDuration: 9s\nconcurrency: 3\n"` + "\n" +
				`status.sidecar.istio.io/port="15999"` + "\n")},
	}
	s := read(t, sources)
	require.Equal(t, "b:1", s.ControlPlane.Address)
	require.Equal(t, 7*time.Second, s.Envoy.DrainTime)
	require.Equal(t, 9*time.Second, s.Envoy.TerminationDrain)
	require.Equal(t, 4, s.Envoy.Concurrency)
	require.Equal(t, uint16(15999), s.Status.Port)
	require.Equal(t, "1", s.Node.Metadata["A"])
	require.Equal(t, "2", s.Node.Metadata["B"])
}

func TestMetadataIsWhatIstiosAgentSends(t *testing.T) {
	sources := pod("ISTIO_META_INTERCEPTION_MODE=REDIRECT", "ISTIO_META_NAMESPACE=stolen",
		`ISTIO_METAJSON_ANNOTATIONS={"sidecar.istio.io/inject":"true"}`, `ISTIO_METAJSON_LABELS={"app":"env","x":"y"}`,
		"EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true", "ISTIO_META_NOT=a=b", "ISTIO_META_CLUSTER_ID=east")
	sources.Files = fstest.MapFS{"etc/istio/pod/labels": {Data: []byte(
		"app=\"reviews\"\npod-template-hash=\"5d\"\nistio-locality=\"eu.north.rack1\"\n")}}
	s := read(t, sources)
	m := s.Node.Metadata
	require.Equal(t, "shop", m["NAMESPACE"], "what the agent knows itself wins")
	require.Equal(t, "reviews-v1-0", m["NAME"])
	require.Equal(t, "10.0.0.7", m["INSTANCE_IPS"])
	require.Equal(t, "REDIRECT", m["INTERCEPTION_MODE"])
	require.Equal(t, "true", m["sidecar.istio.io/inject"])
	require.Equal(t, "true", m["EXIT_ON_ZERO_ACTIVE_CONNECTIONS"])
	require.Equal(t, "a=b", m["NOT"])
	require.Equal(t, "east", s.Node.ClusterID)
	require.Equal(t, map[string]any{"app": "reviews", "x": "y", "istio-locality": "eu.north.rack1"}, m["LABELS"])
	require.Equal(t, Locality{Region: "eu", Zone: "north", SubZone: "rack1"}, s.Node.Locality)
	require.Equal(t, "reviews.shop", s.Node.Cluster)
}

func TestAddressesBeginWithThatOfThePod(t *testing.T) {
	sources := pod()
	sources.Interfaces = []Interface{
		{Name: "lo", Addresses: addrs("127.0.0.1", "::1")},
		{Name: "eth0", Addresses: addrs("fd00::7", "10.0.0.7", "fe80::1")},
		{Name: "net1", Addresses: addrs("192.168.0.1")},
	}
	require.Equal(t, addrs("10.0.0.7", "192.168.0.1", "fd00::7"), read(t, sources).Node.Addresses)
	sources.Files = fstest.MapFS{"etc/istio/pod/annotations": {Data: []byte(
		"traffic.sidecar.istio.io/excludeInterfaces=\"net1,net2\"\n")}}
	require.Equal(t, addrs("10.0.0.7", "fd00::7"), read(t, sources).Node.Addresses)
}

func addrs(all ...string) []netip.Addr {
	var found []netip.Addr
	for _, a := range all {
		found = append(found, netip.MustParseAddr(a))
	}
	return found
}

func TestBadValuesAreRefusedByName(t *testing.T) {
	for _, test := range []struct {
		set  string
		says string
	}{
		{"POD_NAME=", `POD_NAME: is not set`},
		{"POD_NAME=a~b", `POD_NAME: "a~b" has a character`},
		{"INSTANCE_IP=10.0.0", `INSTANCE_IP: "10.0.0" is no IP address`},
		{"PROXY_CONFIG={", `PROXY_CONFIG: is no YAML`},
		{`PROXY_CONFIG={"statusPort":"x"}`, `PROXY_CONFIG: statusPort: a string; want int32`},
		{`PROXY_CONFIG={"statusPort":99999}`, `ProxyConfig: statusPort: 99999 is no port`},
		{`PROXY_CONFIG={"drainDuration":"soon"}`, `PROXY_CONFIG: "soon" is no duration`},
		{`PROXY_CONFIG={"drainDuration":5}`, `PROXY_CONFIG: 5 is no duration`},
		{`PROXY_CONFIG={"discoveryAddress":"istiod"}`, `ProxyConfig: discoveryAddress: "istiod" is no address`},
		{`PROXY_CONFIG={"envoyMetricsService":{"address":"x"}}`, `envoyMetricsService.address: "x" is no address`},
		{`PROXY_CONFIG={"concurrency":-1}`, `ProxyConfig: concurrency: -1 is negative`},
		{`PROXY_CONFIG={"controlPlaneAuthPolicy":"TLS"}`, `controlPlaneAuthPolicy: "TLS" does not exist`},
		{"CA_ADDR=istiod", `CA_ADDR: "istiod" is no address`},
		{"CA_PROVIDER=GkeWorkloadCertificate", `CA_PROVIDER: "GkeWorkloadCertificate" does not exist; want Citadel`},
		{`PROXY_CONFIG={"readinessProbe":{}}`, `readinessProbe: want exactly one of httpGet, tcpSocket, grpc and exec`},
		{`PROXY_CONFIG={"readinessProbe":{"tcpSocket":{"port":0}}}`, `0 is no port; want a number from 1 to 65535`},
		{`PROXY_CONFIG={"readinessProbe":{"tcpSocket":{}}}`, `readinessProbe has no port`},
		{`PROXY_CONFIG={"readinessProbe":{"exec":{}}}`, `readinessProbe.exec.command is empty`},
		{`PROXY_CONFIG={"readinessProbe":{"exec":{"command":["a"]},"periodSeconds":-1}}`, `want seconds of 0 or more`},
		{`PROXY_CONFIG={"readinessProbe":{"exec":{"command":["a"]},"grpc":{"port":1}}}`, `want exactly one of`},
		{"FILE_MOUNTED_CERTS=on", `FILE_MOUNTED_CERTS: "on" is neither true nor false`},
		{"SECRET_GRACE_PERIOD_RATIO=0", `SECRET_GRACE_PERIOD_RATIO: 0 renews a certificate when it has ended`},
		{"EXIT_ON_ZERO_ACTIVE_CONNECTIONS=yes", `EXIT_ON_ZERO_ACTIVE_CONNECTIONS: "yes" is neither true nor false`},
		{"MINIMUM_DRAIN_DURATION=5", `MINIMUM_DRAIN_DURATION: "5" is no duration`},
		{"ENVOY_STATUS_PORT=0", `ENVOY_STATUS_PORT: "0" is no port`},
		{"SECRET_GRACE_PERIOD_RATIO=1.5", `SECRET_GRACE_PERIOD_RATIO: "1.5" is not between 0 and 1`},
		{"SECRET_GRACE_PERIOD_RATIO=NaN", `SECRET_GRACE_PERIOD_RATIO: "NaN" is not between 0 and 1`},
		{"ISTIO_METAJSON_X=[]", `ISTIO_METAJSON_X: is no JSON object`},
		{"WORKLOAD_IDENTITY_SOCKET_FILE=../x", `WORKLOAD_IDENTITY_SOCKET_FILE: "../x" is a path`},
		{"WORKLOAD_RSA_KEY_SIZE=512", `WORKLOAD_RSA_KEY_SIZE: 512 bits`},
		{"ECC_CURVE=P521", `ECC_CURVE: "P521" does not exist`},
		{"ISTIO_CPU_LIMIT=many", `ISTIO_CPU_LIMIT: "many" is no number`},
		{"ISTIO_BOOTSTRAP_OVERRIDE=etc/none", `ISTIO_BOOTSTRAP_OVERRIDE: etc/none does not exist`},
		{`ISTIO_KUBE_APP_PROBERS={"/x":{"tcpSocket":{"port":1}}}`, `PROBERS: "/x": is no path of a probe`},
		{`ISTIO_KUBE_APP_PROBERS={"/app-health/c/livez":{}}`, `want exactly one of httpGet, tcpSocket and grpc`},
		{`ISTIO_KUBE_APP_PROBERS={"/app-health/c/livez":{"tcpSocket":{"port":"web"}}}`, `"web" is no port`},
		{`ISTIO_KUBE_APP_PROBERS={"/app-health/c/livez":{"tcpSocket":{}}}`, `has no port`},
		{`ISTIO_KUBE_APP_PROBERS={"/app-health/c/livez":null}`, `is null`},
		{`ISTIO_PROMETHEUS_ANNOTATIONS={"port":"15020"}`, `ANNOTATIONS: port 15020 is the proxy's own`},
		{`ISTIO_PROMETHEUS_ANNOTATIONS={"port":"015020"}`, `ANNOTATIONS: port 15020 is the proxy's own`},
		{`ISTIO_PROMETHEUS_ANNOTATIONS={"port":"web"}`, `ISTIO_PROMETHEUS_ANNOTATIONS: "web" is no port`},
	} {
		_, err := Read(pod(test.set))
		require.ErrorContains(t, err, test.says, test.set)
	}
}

func TestWhatIsLeftOutIsNoted(t *testing.T) {
	sources := pod(`PROXY_CONFIG={"privateKeyProvider":{"qat":{}},"image":{"imageType":"debug"}}`)
	sources.Args = append(sources.Args, "--stsPort=3", "--later", "7", "--log_output_level=default:debug,ads:info")
	s := read(t, sources)
	require.Equal(t, []string{
		"--stsPort is left out: the agent has no such function",
		"--later is left out: the agent has no such flag",
		"ProxyConfig: privateKeyProvider is left out: neither the agent nor the control plane reads it",
	}, s.Notices)
	require.Equal(t, slog.LevelDebug, s.Log.Level)
	require.Equal(t, map[string]any{"qat": map[string]any{}},
		s.Node.Metadata["PROXY_CONFIG"].(map[string]any)["privateKeyProvider"])
}

func TestProbesOfTheApplication(t *testing.T) {
	s := read(t, pod(`ISTIO_KUBE_APP_PROBERS={
		"/app-health/web/livez":{"httpGet":{"path":"alive?x=1","port":8080,"scheme":"HTTPS"},"timeoutSeconds":3},
		"/app-health/web/readyz":{"grpc":{"port":9090,"service":"shop"}},
		"/app-lifecycle/web/prestopz":{"tcpSocket":{"port":70}}}`))
	require.Equal(t, map[string]Probe{
		"/app-health/web/livez": {
			HTTP:    &HTTPProbe{Path: "/alive?x=1", Port: 8080, TLS: true},
			Timeout: 3 * time.Second,
		},
		"/app-health/web/readyz":      {GRPC: &GRPCProbe{Port: 9090, Service: "shop"}, Timeout: time.Second},
		"/app-lifecycle/web/prestopz": {TCP: &TCPProbe{Port: 70}, Timeout: time.Second},
	}, s.Status.Probes)
}

func TestScrapeTargets(t *testing.T) {
	for set, want := range map[string][]ScrapeTarget{
		`{"scrape":"true","path":"m","port":"8080"}`:          {{Port: 8080, Path: "/m"}},
		`{"scrape":"true"}`:                                   {{Port: 80, Path: "/metrics"}},
		`{"scrape":"false","port":"web"}`:                     nil,
		`{"targets":[{"port":"1","path":"/a"},{"port":"2"}]}`: {{Port: 1, Path: "/a"}, {Port: 2, Path: "/metrics"}},
		``: nil,
	} {
		require.Equal(t, want, read(t, pod("ISTIO_PROMETHEUS_ANNOTATIONS="+set)).Status.Scrape, set)
	}
	gateway := pod(`ISTIO_PROMETHEUS_ANNOTATIONS={"port":"8080"}`)
	gateway.Args = []string{"router"}
	require.Empty(t, read(t, gateway).Status.Scrape, "anybody may reach the status port of a gateway")
}

func TestWhereCertificatesComeFrom(t *testing.T) {
	s := read(t, pod("OUTPUT_CERTS=/out/", "CA_ADDR=ca.test:443", "CA_ROOT_CA=SYSTEM"))
	require.Equal(t, "ca.test:443", s.CA.Address)
	require.Equal(t, "ca.test", s.CA.ServerName)
	require.Empty(t, s.CA.RootFile)
	require.Equal(t, istiodRoot, s.CA.MeshRoots)
	require.Equal(t, "/out/key.pem", s.CA.Output.Key)

	s = read(t, pod("FILE_MOUNTED_CERTS=true"))
	require.Empty(t, s.CA.Address)
	require.Equal(t, "./etc/certs/cert-chain.pem", s.CA.Mounted.Chain)

	require.Equal(t, revokedFile, s.CA.RevokedFile)
	require.Equal(t, compliance.FIPS1402, read(t, pod("COMPLIANCE_POLICY=fips-140-2")).Compliance)

	s = read(t, pod("PILOT_CERT_PROVIDER=kubernetes"))
	require.Equal(t, kubeRoot, s.CA.RootFile)
	require.Empty(t, s.CA.MeshRoots, "the cluster's roots prove no workload")

	s = read(t, pod(`PROXY_CONFIG={"controlPlaneAuthPolicy":"NONE"}`))
	require.True(t, s.ControlPlane.Plaintext)
	require.Empty(t, s.CA.Address)
}

func TestStatistics(t *testing.T) {
	sources := pod(`PROXY_CONFIG={"extraStatTags":["t"],
		"proxyStatsMatcher":{"inclusionPrefixes":["a","http.{pod_ip}_"]}}`)
	sources.Files = fstest.MapFS{"etc/istio/pod/annotations": {Data: []byte(
		"sidecar.istio.io/statsInclusionSuffixes=\"x,y\"\nsidecar.istio.io/extraStatTags=\"t,u\"\n")}}
	require.Equal(t, Stats{
		Prefixes: []string{"a", "http.10.0.0.7_"}, Suffixes: []string{"x", "y"}, ExtraTags: []string{"t", "u"},
	}, read(t, sources).Envoy.Stats)
}

func TestBootstrapOverrideKnowsTheNode(t *testing.T) {
	sources := pod("ISTIO_BOOTSTRAP_OVERRIDE=/etc/istio/custom.yaml", "HOST_IP=fd00::1")
	sources.Files = fstest.MapFS{"etc/istio/custom.yaml": {Data: []byte(
		"a: {b: '$(HOST_IP):1', c: '[$(HOST_IP)]:1'}\n")}}
	require.JSONEq(t, `{"a":{"b":"[fd00::1]:1","c":"[fd00::1]:1"}}`, read(t, sources).Envoy.Override)
}

// TestMachinesProveThemselvesByTheirCertificate: PROV_CERT has the roots too, unless others are
// named.
func TestMachinesProveThemselvesByTheirCertificate(t *testing.T) {
	s := read(t, pod("PROV_CERT=/etc/certs/", "CA_ROOT_CA=/roots"))
	require.Equal(t, CertificateFiles{
		Chain: "/etc/certs/cert-chain.pem", Key: "/etc/certs/key.pem", Root: "/etc/certs/root-cert.pem",
	}, s.CA.Provisioned)
	require.Equal(t, "/etc/certs/root-cert.pem", s.ControlPlane.RootFile)
	require.Equal(t, "/roots", s.CA.RootFile)
	require.Equal(t, "/etc/certs/root-cert.pem", s.CA.MeshRoots)
	require.NotEmpty(t, s.CA.TokenFile, "by which a machine begins")
}

func TestReadinessProbeOfTheWorkload(t *testing.T) {
	require.Nil(t, read(t, pod()).Readiness)
	for text, want := range map[string]Readiness{
		`{"httpGet":{"path":"ready","port":80,"host":"h","scheme":"https","httpHeaders":[{"name":"x-a","value":"b"}]},
			"initialDelaySeconds":1,"timeoutSeconds":2,"periodSeconds":3,"successThreshold":4,"failureThreshold":5}`: {
			InitialDelay: time.Second, Timeout: 2 * time.Second, Period: 3 * time.Second, Successes: 4, Failures: 5,
			Host: "h", HTTP: &HTTPProbe{Path: "/ready", Port: 80, TLS: true}, Headers: http.Header{"X-A": {"b"}},
		},
		`{"tcpSocket":{"host":"h","port":81}}`: {
			Timeout: time.Second, Period: 10 * time.Second, Successes: 1, Failures: 1, Host: "h",
			TCP: &TCPProbe{Port: 81},
		},
		`{"grpc":{"port":82,"service":"s"}}`: {
			Timeout: time.Second, Period: 10 * time.Second, Successes: 1, Failures: 1,
			GRPC: &GRPCProbe{Port: 82, Service: "s"},
		},
		`{"exec":{"command":["a","b"]}}`: {
			Timeout: time.Second, Period: 10 * time.Second, Successes: 1, Failures: 1, Exec: []string{"a", "b"},
		},
	} {
		s := read(t, pod(`PROXY_CONFIG={"readinessProbe":`+text+"}"))
		require.Equal(t, &want, s.Readiness, text)
		require.Empty(t, s.Notices)
	}
}

// TestConfigReadsTheseFields: the list of names that are read is that of the struct.
func TestConfigReadsTheseFields(t *testing.T) {
	var names []string
	for f := range reflect.TypeFor[proxyConfig]().Fields() {
		names = append(names, f.Tag.Get("json"))
	}
	require.ElementsMatch(t, names, readHere)
}

func TestArguments(t *testing.T) {
	for args, says := range map[string]string{
		"waypoint":                        `type of proxy "waypoint" is not supported`,
		"sidecar --concurrency=-1":        "--concurrency: -1 is negative",
		"sidecar --concurrency=x":         "invalid argument",
		"sidecar --log_output_level=loud": `level "loud" does not exist`,
	} {
		sources := pod()
		sources.Args = strings.Fields(args)
		_, err := Read(sources)
		require.ErrorContains(t, err, says)
	}
}

// FuzzRead: whatever a template sets, reading ends with settings or an error.
func FuzzRead(f *testing.F) {
	f.Add(`{"proxyMetadata":{"A":"b"}}`, `{"/app-health/c/livez":{"httpGet":{"port":1}}}`, `{"a":1}`, "app=\"x\"\n")
	f.Add(`proxyMetadata: 5`, `{}`, `null`, "a=\"")
	f.Fuzz(func(t *testing.T, config, probers, meta, labels string) {
		sources := pod("PROXY_CONFIG="+config, "ISTIO_KUBE_APP_PROBERS="+probers, "ISTIO_PROMETHEUS_ANNOTATIONS="+meta,
			"ISTIO_METAJSON_X="+meta)
		sources.Files = fstest.MapFS{"etc/istio/pod/labels": {Data: []byte(labels)}}
		s, err := Read(sources)
		require.True(t, err != nil || len(s.Node.Addresses) > 0)
	})
}
