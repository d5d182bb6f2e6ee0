package local

import (
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

const (
	clusterID = "Kubernetes" // Istio's name for the only cluster
	// xdsCluster is the bootstrap's cluster for the control plane, under Istio's name.
	xdsCluster = "xds-grpc"
	// sdsCluster is that for the agent, under Istio's name.
	sdsCluster = "sds-grpc"
	// statusPort answers for readiness in a cluster. Here it tells the control plane that there is
	// an agent.
	statusPort = 15021
	// ListenerDrain is how long a replaced or removed listener serves its connections, unless
	// Options say otherwise.
	ListenerDrain = 5 * time.Second
)

// bootstrap is the input of one Envoy's bootstrap configuration.
type bootstrap struct {
	pod      *corev1.Pod
	addrs    addresses
	role     podRole
	workload string // the Deployment's name, or the pod's
	owner    string // as in Istio's OWNER metadata
	xds      netip.AddrPort
	token    string
	version  string
	metadata map[string]any // of the node, beside what the runtime says
	metrics  bool           // the proxy keeps Istio's standard metrics
	sds      string         // the socket at which the agent serves certificates; empty: there is none
}

// envoyArgs returns the command line for a bootstrap file and a number of worker threads.
func (o Options) envoyArgs(file string, workers int) []string {
	return []string{
		o.Envoy, "--config-path", file,
		"--concurrency", strconv.Itoa(workers), "--disable-hot-restart",
		// not a line for each use of a deprecated field
		"--log-level", "warning", "--component-log-level", "misc:error",
		"--drain-time-s", strconv.Itoa(int(o.ListenerDrain.Seconds())), "--drain-strategy", "immediate",
	}
}

// proxyConfig is the annotation with Istio's ProxyConfig, of which concurrency and gatewayTopology
// are read here, and tracing and proxyHeaders by the control plane.
const proxyConfig = "proxy.istio.io/config"

// workersOf returns how many worker threads a pod's Envoy has: what the ProxyConfigs, its
// annotation and the mesh configuration say, in Istio's order, or one, since the Envoys of a laptop
// share few processors. Zero stands for one per processor, as in Istio.
func workersOf(meta *corev1.Pod, objects model.ProxyConfigs, mesh *int32) (int, error) {
	config := struct {
		Concurrency *int32 `json:"concurrency"`
	}{}
	text := meta.Annotations[proxyConfig]
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return 0, fmt.Errorf("metadata.annotations[%s] %q: %w", proxyConfig, text, err)
	}
	n := config.Concurrency
	for _, c := range []*model.ProxyConfig{objects.Namespace, objects.Mesh} {
		if n == nil && c != nil {
			n = c.Concurrency
		}
	}
	if n == nil {
		n = mesh
	}
	if own := objects.Workload; own != nil && own.Concurrency != nil {
		n = own.Concurrency
	}
	switch {
	case n == nil:
		return 1, nil
	case *n < 0:
		return 0, fmt.Errorf("metadata.annotations[%s]: concurrency %d: want 0 (a worker for each processor) or more",
			proxyConfig, *n)
	case *n == 0:
		return runtime.NumCPU(), nil
	default:
		return int(*n), nil
	}
}

// statedConfig returns what a gateway's annotation says of itself to the control plane.
func statedConfig(meta *corev1.Pod) (map[string]any, error) {
	config := struct {
		GatewayTopology map[string]any `json:"gatewayTopology"`
	}{}
	text := meta.Annotations[proxyConfig]
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return nil, fmt.Errorf("metadata.annotations[%s] %q: %w", proxyConfig, text, err)
	}
	if config.GatewayTopology == nil {
		return map[string]any{}, nil
	}
	return map[string]any{"gatewayTopology": config.GatewayTopology}, nil
}

// JSON returns the content of the bootstrap file. It contains the pod's token.
func (b bootstrap) JSON() ([]byte, error) {
	node, err := b.node()
	if err != nil {
		return nil, err
	}
	http2, err := http2Options()
	if err != nil {
		return nil, err
	}
	clusters := []*clusterv3.Cluster{staticCluster(xdsCluster, socketAddress(b.xds), http2)}
	if b.sds != "" {
		clusters = append(clusters, staticCluster(sdsCluster, socketPath(b.sds), http2))
	}
	return protojson.Marshal(&bootstrapv3.Bootstrap{
		Node: node,
		Admin: &bootstrapv3.Admin{
			Address: socketAddress(netip.AddrPortFrom(b.addrs.Outbound, AdminPort)),
		},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Clusters: clusters},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{
			AdsConfig: b.ads(), CdsConfig: overADS(), LdsConfig: overADS(),
		},
		// Half of a cluster's memory are statistics that most clusters never use.
		DeferredStatOptions: &bootstrapv3.Bootstrap_DeferredStatOptions{EnableDeferredCreationStats: true},
		StatsConfig:         statsConfig(),
		LayeredRuntime:      runtimeFlags(),
	})
}

// statsConfig gives Envoy's own statistics the labels that they have in a cluster, such as
// cluster_name.
func statsConfig() *metricsv3.StatsConfig {
	c := &metricsv3.StatsConfig{UseAllDefaultTags: wrapperspb.Bool(false)}
	for _, l := range proxystats.Labels() {
		c.StatsTags = append(c.StatsTags, &metricsv3.TagSpecifier{
			TagName: l.Name, TagValue: &metricsv3.TagSpecifier_Regex{Regex: l.Regex},
		})
	}
	return c
}

// runtimeFlags lift Envoy's limit on regular expressions to Istio's. By default it refuses a whole
// route table for one with a program of more than 100 instructions, which a few character classes
// have.
func runtimeFlags() *bootstrapv3.LayeredRuntime {
	flags := &structpb.Struct{Fields: map[string]*structpb.Value{
		"re2.max_program_size.error_level": structpb.NewNumberValue(32768),
	}}
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{
		{Name: "static", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: flags}},
		{
			Name:           "admin",
			LayerSpecifier: &bootstrapv3.RuntimeLayer_AdminLayer_{AdminLayer: &bootstrapv3.RuntimeLayer_AdminLayer{}},
		},
	}}
}

// nodeID returns the node ID in Istio's form: type~address~pod.namespace~DNS domain.
func (b bootstrap) nodeID() string {
	kind := "sidecar"
	if b.role == roleGateway {
		kind = "router"
	}
	ns := b.pod.Namespace
	return fmt.Sprintf("%s~%s~%s.%s~%s.svc.cluster.local", kind, b.addrs.Pod, b.pod.Name, ns, ns)
}

func (b bootstrap) node() (*corev3.Node, error) {
	labels := map[string]any{}
	for k, v := range b.pod.Labels {
		labels[k] = v
	}
	config, err := statedConfig(b.pod)
	if err != nil {
		return nil, err
	}
	metadata := map[string]any{
		"NAME":            b.pod.Name,
		"NAMESPACE":       b.pod.Namespace,
		"LABELS":          labels,
		"SERVICE_ACCOUNT": b.pod.Spec.ServiceAccountName,
		"CLUSTER_ID":      clusterID,
		"WORKLOAD_NAME":   b.workload,
		"OWNER":           b.owner,
		"ISTIO_VERSION":   b.version,
		"INSTANCE_IPS":    b.addrs.Pod.String(),
		"NODE_NAME":       b.pod.Spec.NodeName,
		"PROXY_CONFIG":    config,
	}
	if text := b.pod.Annotations[proxyConfig]; text != "" {
		metadata["ANNOTATIONS"] = map[string]any{proxyConfig: text}
	}
	if b.role == roleSidecar {
		metadata["INTERCEPTION_MODE"] = "NONE"
		metadata["HTTP_PROXY_PORT"] = strconv.Itoa(HTTPProxyPort)
	}
	if b.sds != "" {
		metadata["ENVOY_STATUS_PORT"] = statusPort
	}
	if b.metrics {
		metadata[proxystats.MetadataKey] = proxystats.MetadataValue
	}
	for key, value := range b.metadata {
		if _, own := metadata[key]; !own {
			metadata[key] = value
		}
	}
	encoded, err := structpb.NewStruct(metadata)
	if err != nil {
		return nil, fmt.Errorf("node metadata of pod %s/%s: %w", b.pod.Namespace, b.pod.Name, err)
	}
	return &corev3.Node{
		Id:       b.nodeID(),
		Cluster:  b.workload + "." + b.pod.Namespace,
		Metadata: encoded,
		Locality: localityOf(b.pod),
	}, nil
}

// ads returns the one stream for all types: delta, with the node in the first message only, and a
// short backoff so that proxies return quickly after a restart of the control plane.
func (b bootstrap) ads() *corev3.ApiConfigSource {
	return &corev3.ApiConfigSource{
		ApiType:                   corev3.ApiConfigSource_DELTA_GRPC,
		TransportApiVersion:       corev3.ApiVersion_V3,
		SetNodeOnFirstMessageOnly: true,
		GrpcServices: []*corev3.GrpcService{{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
				ClusterName: xdsCluster,
				RetryPolicy: &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
					BaseInterval: durationpb.New(50 * time.Millisecond),
					MaxInterval:  durationpb.New(time.Second),
				}},
			}},
			InitialMetadata: []*corev3.HeaderValue{{Key: "authorization", Value: "Bearer " + b.token}},
		}},
	}
}

func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		// The server answers every subscription; going on without an answer would serve 503s.
		InitialFetchTimeout: durationpb.New(0),
	}
}

// http2Options are those of a connection to the control plane or to the agent.
func http2Options() (*anypb.Any, error) {
	return anypb.New(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
						ConnectionKeepalive: &corev3.KeepaliveSettings{
							Interval: durationpb.New(30 * time.Second), Timeout: durationpb.New(5 * time.Second),
						},
						InitialConnectionWindowSize: wrapperspb.UInt32(16 << 20),
						InitialStreamWindowSize:     wrapperspb.UInt32(16 << 20),
					},
				},
			},
		},
	})
}

// staticCluster is a cluster of one endpoint that speaks HTTP/2.
func staticCluster(name string, address *corev3.Address, http2 *anypb.Any) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		AltStatName:          proxystats.StatName(name),
		ConnectTimeout:       durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: name,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
					Endpoint: &endpointv3.Endpoint{Address: address},
				},
			}}}},
		},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2,
		},
	}
}

func socketPath(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

func socketAddress(a netip.AddrPort) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       a.Addr().String(),
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.Port())},
	}}}
}

// localityOf returns the locality of a pod: Istio's label istio-locality (region.zone.subzone), or
// the topology labels that its node would have in a cluster. It is nil without any.
func localityOf(pod *corev1.Pod) *corev3.Locality {
	if l := pod.Labels["istio-locality"]; l != "" {
		parts := strings.SplitN(l, ".", 3)
		parts = append(parts, "", "")
		return &corev3.Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}
	}
	region, zone := pod.Labels[corev1.LabelTopologyRegion], pod.Labels[corev1.LabelTopologyZone]
	if region == "" && zone == "" {
		return nil
	}
	return &corev3.Locality{Region: region, Zone: zone, SubZone: pod.Labels["topology.istio.io/subzone"]}
}
