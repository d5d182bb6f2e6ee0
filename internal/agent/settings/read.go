package settings

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

const (
	// Istio's paths, relative to the working directory as there.
	tokenFile   = "./var/run/secrets/tokens/istio-token"
	istiodRoot  = "./var/run/secrets/istio/root-cert.pem"
	revokedFile = "./var/run/secrets/istio/crl/ca-crl.pem"
	kubeRoot    = "./var/run/secrets/kubernetes.io/serviceaccount/ca.crt"
	mountedDir  = "./etc/certs"
	sdsDir      = "./var/run/secrets/workload-spiffe-uds/"
	lastConfig  = "./var/lib/istio/data/last-configuration"
	wasmDir     = "./var/lib/istio/data/wasm"
	// systemRoots stands for the roots that the machine trusts, in place of a file.
	systemRoots = "SYSTEM"
)

// refused are variables that change how the proxy proves itself, and that the agent does not know.
// To go on without them would be another security than the one that was asked for.
var refused = []string{
	"XDS_AUTH_PROVIDER", "ENVOY_SECURE_METRICS_PORT", "ENVOY_SECURE_MERGED_METRICS_PORT",
}

// ignored are variables that pilot-agent reads and that change nothing here.
var ignored = []string{
	"PEER_METADATA_DISCOVERY", "PROXY_CONFIG_XDS_AGENT", "ISTIO_ENVOY_ENABLE_CORE_DUMP",
	"ENVOY_STATUS_PORT_ENABLE_PROXY_PROTOCOL", "CLOUD_PLATFORM", "CREDENTIAL_IDENTITY_PROVIDER",
	"FILE_DEBOUNCE_DURATION", "GCP_METADATA", "GCP_QUOTA_PROJECT", "GCP_ZONE", "GRPC_XDS_BOOTSTRAP",
	"HTTP_STRIP_FRAGMENT_FROM_PATH_UNSAFE_IF_DISABLED", "ISTIO_BOOTSTRAP", "ISTIO_ENABLE_HTTP2_PROBING",
	"JWT_POLICY", "TOKEN_AUDIENCES", "XDS_AUTH_PLAINTEXT",
}

// Read reads all settings. The error names each value that is wrong.
func Read(sources Sources) (Settings, error) {
	args, err := parseArguments(sources.Args)
	if err != nil {
		return Settings{}, err
	}
	e := newEnvironment(sources.Environ)
	e.notices = args.notices
	s := Settings{Log: args.log}
	annotations := e.pod(&s, args, sources)
	merged := e.proxyConfig(args, sources, annotations)
	config, err := decodeConfig(merged)
	if err != nil { // each layer was decoded alone
		return Settings{}, err
	}
	e.runtime(&s, args, config)
	e.stats(&s, config)
	e.trust(&s, config)
	e.status(&s, config)
	e.wasm(&s)
	s.Readiness, err = config.ReadinessProbe.readiness()
	e.check(wrap("ProxyConfig", err))
	s.Status.Kubelet = e.kubelet(sources.Gateways)
	e.leftOut(merged)
	if file := e.text("ISTIO_BOOTSTRAP_OVERRIDE", ""); file != "" {
		s.Envoy.Override, err = override(sources.Files, file, e.text("HOST_IP", ""))
		e.check(wrap("ISTIO_BOOTSTRAP_OVERRIDE", err))
	}
	s.Node.Cluster = serviceCluster(config.ServiceCluster, s.Node, e.text("ISTIO_META_WORKLOAD_NAME", ""))
	s.Node.Metadata = e.metadata(&s, config, merged)
	workload := s.Node.Workload()
	s.Envoy.Environ = append(
		workload.SpanVariables(func(name string) string { return e.text(name, "") }),
		proxystats.PeerVariable+"="+workload.String(),
	)
	s.Notices = e.notices
	if err := errors.Join(e.errs...); err != nil {
		return Settings{}, err
	}
	return s, nil
}

func (e *environment) check(err error) {
	if err != nil {
		e.errs = append(e.errs, err)
	}
}

func wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// pod reads who the proxy is, and returns the Pod's annotations.
func (e *environment) pod(s *Settings, args arguments, sources Sources) map[string]string {
	labels, err := downward(sources.Files, labelsFile)
	e.check(err)
	annotations, err := downward(sources.Files, annotationsFile)
	e.check(err)
	n := &s.Node
	n.Type, n.Domain = args.kind, args.domain
	n.Pod, n.Namespace = e.required("POD_NAME"), e.required("POD_NAMESPACE")
	for _, field := range [][2]string{{"POD_NAME", n.Pod}, {"POD_NAMESPACE", n.Namespace}, {"--domain", n.Domain}} {
		if strings.ContainsAny(field[1], "~\n") {
			e.refuse(field[0], "%q has a character that ends a field of the node id", field[1])
		}
	}
	if n.Domain == "" {
		n.Domain = n.Namespace + ".svc.cluster.local"
	}
	n.ServiceAccount = e.text("SERVICE_ACCOUNT", "")
	n.ClusterID = e.text("ISTIO_META_CLUSTER_ID", "Kubernetes")
	n.TrustDomain = e.text("TRUST_DOMAIN", "cluster.local")
	n.Labels, n.Annotations, n.TemplateHash = e.labels(labels), annotations, labels[templateHash]
	n.Locality = locality(n.Labels)
	n.Addresses = e.addresses(sources, annotations["traffic.sidecar.istio.io/excludeInterfaces"])
	return annotations
}

// proxyConfig merges the places of a ProxyConfig, from the mesh's to the Pod's own. The injector
// has merged the annotation into the variable already, and over it the object ProxyConfig that
// selects the Pod.
func (e *environment) proxyConfig(args arguments, sources Sources, annotations map[string]string) map[string]any {
	layers, err := meshFile(sources.Files, args.meshConfig)
	e.check(err)
	for _, l := range []layer{
		{"annotation " + annotationConfig, annotations[annotationConfig]},
		{"PROXY_CONFIG", e.text("PROXY_CONFIG", "")},
	} {
		if strings.TrimSpace(l.text) != "" {
			layers = append(layers, l)
		}
	}
	merged, err := mergeConfig(layers)
	e.check(err)
	if a := annotations[annotationAddress]; a != "" {
		merged["discoveryAddress"] = a
	}
	if p := annotations[annotationStatus]; p != "" {
		port, err := portOf("annotation "+annotationStatus, p)
		e.check(err)
		merged["statusPort"] = port
	}
	return merged
}

// runtime reads how Envoy is started and ended.
func (e *environment) runtime(s *Settings, args arguments, c proxyConfig) {
	s.Envoy = Envoy{
		Binary:                c.BinaryPath,
		ConfigDir:             strings.TrimSuffix(c.ConfigPath, "/"),
		Concurrency:           e.concurrency(args, c),
		AdminPort:             e.configPort("proxyAdminPort", c.ProxyAdminPort),
		StatusPort:            e.port("ENVOY_STATUS_PORT", 15021),
		MetricsPort:           e.port("ENVOY_PROMETHEUS_PORT", 15090),
		DrainTime:             c.DrainDuration.Duration,
		TerminationDrain:      c.TerminationDrainDuration.Duration,
		ExitOnZeroConnections: e.flag("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", false),
		MinimumDrain:          e.duration("MINIMUM_DRAIN_DURATION", 5*time.Second),
		LogLevel:              args.logLevel,
		ComponentLogLevel:     args.componentLogLevel,
		LogJSON:               args.log.JSON,
		SkipDeprecatedLogs:    e.flag("ENVOY_SKIP_DEPRECATED_LOGS", true),
		FlushInterval:         c.FileFlushInterval.Duration,
		FlushKB:               c.FileFlushMinSizeKB,
		OutlierLogPath:        args.outlierLogPath,
		RuntimeValues:         c.RuntimeValues,
		MaxConnections:        c.ConnectionSettings.GlobalDownstreamConnectionLimit,
		StatsCompression:      c.StatsCompression == nil || *c.StatsCompression,
	}
	if s.Envoy.FlushInterval == 0 {
		s.Envoy.FlushInterval = time.Second
	}
	socket := e.text("WORKLOAD_IDENTITY_SOCKET_FILE", "socket")
	if strings.Contains(socket, "/") {
		e.refuse("WORKLOAD_IDENTITY_SOCKET_FILE", "%q is a path; want the name of a file", socket)
	}
	s.Envoy.SDSSocket = sdsDir + socket
}

// concurrency takes the flag before the ProxyConfig, and that before the limit of processors.
func (e *environment) concurrency(args arguments, c proxyConfig) int {
	limit := e.count("ISTIO_CPU_LIMIT", 0)
	switch {
	case args.concurrency != 0:
		return args.concurrency
	case c.Concurrency == nil:
		return limit
	case *c.Concurrency < 0:
		e.refuse("ProxyConfig", "concurrency: %d is negative", *c.Concurrency)
	}
	return int(*c.Concurrency)
}

func (e *environment) configPort(field string, port int32) uint16 {
	if port <= 0 || port > 65535 {
		e.refuse("ProxyConfig", "%s: %d is no port; want 1 to 65535", field, port)
	}
	return uint16(port)
}

// stats reads which statistics are kept. Of an annotation and the ProxyConfig the annotation holds.
func (e *environment) stats(s *Settings, c proxyConfig) {
	m := c.ProxyStatsMatcher
	s.Envoy.Stats = Stats{
		Prefixes:  e.inclusions(s, "Prefixes", m.InclusionPrefixes),
		Suffixes:  e.inclusions(s, "Suffixes", m.InclusionSuffixes),
		Regexps:   e.inclusions(s, "Regexps", m.InclusionRegexps),
		ExtraTags: slices.Clone(c.ExtraStatTags),
	}
	if to := c.EnvoyMetricsService.Address; to != "" {
		s.Envoy.Stats.Service = e.address("ProxyConfig: envoyMetricsService.address", to)
	}
	for _, tag := range strings.Split(s.Node.Annotations["sidecar.istio.io/extraStatTags"], ",") {
		if tag != "" && !slices.Contains(s.Envoy.Stats.ExtraTags, tag) {
			s.Envoy.Stats.ExtraTags = append(s.Envoy.Stats.ExtraTags, tag)
		}
	}
}

// inclusions returns the patterns of one kind. In them {pod_ip} stands for each address of the Pod.
func (e *environment) inclusions(s *Settings, kind string, set []string) []string {
	if a := s.Node.Annotations["sidecar.istio.io/statsInclusion"+kind]; a != "" {
		set = strings.Split(a, ",")
	}
	var all []string
	for _, pattern := range set {
		if !strings.Contains(pattern, "{pod_ip}") {
			all = append(all, pattern)
			continue
		}
		for _, a := range s.Node.Addresses {
			all = append(all, strings.ReplaceAll(pattern, "{pod_ip}", a.String()))
		}
	}
	return all
}

// trust reads where the control plane and the CA are, and how each side proves itself.
func (e *environment) trust(s *Settings, c proxyConfig) {
	root := istiodRoot
	switch provider := e.text("PILOT_CERT_PROVIDER", "istiod"); provider {
	case "kubernetes":
		root = kubeRoot
	case "system":
		root = systemRoots
	case "istiod", "custom", "none":
	default:
		if !strings.HasPrefix(provider, "k8s.io/") {
			e.refuse("PILOT_CERT_PROVIDER", "%q does not exist; want istiod, kubernetes, system or custom", provider)
		}
	}
	if p := c.ControlPlaneAuthPolicy; p != "NONE" && p != "MUTUAL_TLS" {
		e.refuse("ProxyConfig", "controlPlaneAuthPolicy: %q does not exist; want MUTUAL_TLS or NONE", p)
	}
	discovery := e.address("ProxyConfig: discoveryAddress", c.DiscoveryAddress)
	s.ControlPlane = ControlPlane{
		Address:    discovery,
		ServerName: e.text("ISTIOD_SAN", serverName(discovery)),
		RootFile:   e.roots("XDS_ROOT_CA", root),
		TokenFile:  tokenFile,
		Headers:    e.withPrefix("XDS_HEADER_"),
		Plaintext:  c.ControlPlaneAuthPolicy == "NONE",
		LastConfig: lastConfig,
	}
	var err error
	s.Compliance, err = compliance.Parse(e.text("COMPLIANCE_POLICY", ""))
	e.check(wrap("COMPLIANCE_POLICY", err))
	e.oneOf("CA_PROVIDER", "Citadel", "Citadel")
	e.oneOf("CREDENTIAL_FETCHER_TYPE", "JWT", "JWT")
	ca := e.address("CA_ADDR", e.text("CA_ADDR", discovery))
	s.CA = CA{
		Address:     ca,
		ServerName:  serverName(ca),
		RootFile:    e.roots("CA_ROOT_CA", root),
		RevokedFile: revokedFile,
		TokenFile:   tokenFile,
		Headers:     e.withPrefix("CA_HEADER_"),
		Signer:      e.text("ISTIO_META_CERT_SIGNER", ""),
		TTL:         e.duration("SECRET_TTL", 24*time.Hour),
		Grace:       e.ratio("SECRET_GRACE_PERIOD_RATIO", 0.5),
		Jitter:      e.ratio("SECRET_GRACE_PERIOD_RATIO_JITTER", 0.01),
		PKCS8:       e.flag("PKCS8_KEY", false),
	}
	if ca == discovery {
		s.CA.ServerName = s.ControlPlane.ServerName
	}
	if s.CA.Grace == 0 {
		e.refuse("SECRET_GRACE_PERIOD_RATIO", "0 renews a certificate when it has ended; want above 0")
	}
	if !e.flag("ISTIO_DELTA_XDS", true) {
		e.note("ISTIO_DELTA_XDS=false is left out: the agent asks for the difference alone")
	}
	e.certificateFiles(s, root)
	e.keyAlgorithm(s)
	s.DNS = DNS{
		Enabled:  e.flag("ISTIO_META_DNS_CAPTURE", false) || e.flag("ISTIO_META_ENABLE_DNS_SERVER", false),
		Address:  e.text("DNS_PROXY_ADDR", "localhost:15053"),
		Parallel: e.flag("DNS_FORWARD_PARALLEL", false),
		Timeout:  e.duration("DNS_FORWARD_TIMEOUT", 5*time.Second),
	}
}

// certificateFiles reads which files take the place of the CA, or go beside it. Roots of the mesh
// are those that come with its name; other roots prove the control plane alone.
func (e *environment) certificateFiles(s *Settings, root string) {
	if dir := e.text("OUTPUT_CERTS", ""); dir != "" {
		s.CA.Output = filesIn(dir)
	}
	if dir := e.text("PROV_CERT", ""); dir != "" {
		s.CA.Provisioned = filesIn(dir)
		for name, file := range map[string]*string{
			"XDS_ROOT_CA": &s.ControlPlane.RootFile, "CA_ROOT_CA": &s.CA.RootFile,
		} {
			if e.text(name, "") == "" {
				*file = s.CA.Provisioned.Root
			}
		}
	}
	if e.flag("FILE_MOUNTED_CERTS", false) {
		s.CA.Mounted, s.CA.Address = filesIn(mountedDir), ""
	}
	if s.ControlPlane.Plaintext && e.text("CA_ADDR", "") == "" {
		s.CA.Address = ""
	}
	if root == istiodRoot && s.CA.Address != "" {
		s.CA.MeshRoots = root
		if own := s.CA.Provisioned.Root; own != "" {
			s.CA.MeshRoots = own
		}
	}
}

// filesIn are a certificate's files under Istio's names.
func filesIn(dir string) CertificateFiles {
	dir = strings.TrimSuffix(dir, "/")
	return CertificateFiles{Chain: dir + "/cert-chain.pem", Key: dir + "/key.pem", Root: dir + "/root-cert.pem"}
}

// roots returns the file of a variable, or nothing for the roots of the machine.
func (e *environment) roots(name, fallback string) string {
	if file := e.text(name, fallback); file != systemRoots {
		return file
	}
	return ""
}

// keyAlgorithm reads the kind of key. Without a word it is ECDSA on P-256, where pilot-agent takes
// RSA: the key is made a hundred times faster, and handshakes cost a tenth.
func (e *environment) keyAlgorithm(s *Settings) {
	if e.text("ECC_SIGNATURE_ALGORITHM", "") != "" || e.text("WORKLOAD_RSA_KEY_SIZE", "") == "" {
		e.oneOf("ECC_SIGNATURE_ALGORITHM", "ECDSA", "ECDSA")
		e.oneOf("ECC_CURVE", "P256", "P256")
		return
	}
	if s.CA.RSABits = e.count("WORKLOAD_RSA_KEY_SIZE", 2048); s.CA.RSABits < 2048 || s.CA.RSABits > 8192 {
		e.refuse("WORKLOAD_RSA_KEY_SIZE", "%d bits; want 2048 to 8192", s.CA.RSABits)
	}
}

// serverName is the host of an address. A control plane on this machine has a certificate for its
// name in the cluster.
func serverName(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" {
		return "istiod.istio-system.svc"
	}
	return host
}

// status reads what the agent serves.
func (e *environment) status(s *Settings, c proxyConfig) {
	s.Status = Status{
		ProbeLocalhost: e.flag("REWRITE_PROBE_LEGACY_LOCALHOST_DESTINATION", false),
		ProbeKeepAlive: e.flag("ENABLE_PROBE_KEEPALIVE_CONNECTIONS", false),
		MergeEnvoy:     e.flag("PILOT_AGENT_MERGE_ENVOY_STATS", true),
		MetricsOnly:    e.flag("METRICS_LOCALHOST_ACCESS_ONLY", false),
	}
	if c.StatusPort != 0 {
		s.Status.Port = e.configPort("statusPort", c.StatusPort)
	}
	var err error
	s.Status.Probes, err = parseProbers(e.text(probersVariable, ""))
	e.check(err)
	targets, err := parseScrape(e.text(scrapeVariable, ""), s.Status.Port, s.Envoy.MetricsPort, s.Envoy.AdminPort)
	e.check(err)
	if s.Node.Type == Sidecar { // the Services of a gateway show this port
		s.Status.Scrape = targets
	}
}

// leftOut refuses what cannot be done and protects, and notes the rest.
func (e *environment) leftOut(merged map[string]any) {
	for _, name := range refused {
		if v := e.text(name, ""); v != "" && v != "0" && v != "false" {
			e.refuse(name, "is not supported; want it not set")
		}
	}
	if e.flag("DISABLE_ENVOY", false) {
		e.refuse("DISABLE_ENVOY", "an agent without Envoy is not supported; want false")
	}
	for _, name := range ignored {
		if v := e.text(name, ""); v != "" && v != "0" && v != "false" {
			e.note("%s is left out: the agent has no such function", name)
		}
	}
	for _, field := range unread(merged) {
		e.note("ProxyConfig: %s is left out: neither the agent nor the control plane reads it", field)
	}
}
