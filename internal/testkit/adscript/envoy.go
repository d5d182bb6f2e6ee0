package adscript

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

const xdsCluster = "adscript"

// process is a running Envoy.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	stderr *lastLines

	adminFile string
	admin     string // host:port, once it is known
}

func startEnvoy(t testing.TB, o Options, port int) *process {
	t.Helper()
	binary := realenvoy.Binary(t)
	dir := t.TempDir()
	config, err := bootstrap(o, uint32(port))
	if err != nil {
		t.Fatalf("adscript: %v", err)
	}
	file := filepath.Join(dir, "bootstrap.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatalf("adscript: %v", err)
	}
	drain := max(o.Drain, time.Second)
	p := &process{exited: make(chan struct{}), stderr: &lastLines{}, adminFile: filepath.Join(dir, "admin")}
	p.cmd = exec.Command(binary, "-c", file, "--admin-address-path", p.adminFile,
		"--concurrency", "1", "--disable-hot-restart", "-l", "error",
		"--drain-time-s", strconv.Itoa(int(drain.Seconds())), "--drain-strategy", "immediate")
	p.cmd.Stdout, p.cmd.Stderr = p.stderr, p.stderr
	p.cmd.SysProcAttr = tied()
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("adscript: %v", err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // how it ended is in ProcessState
	}()
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has exited
	<-p.exited
}

// readAdminAddress reports whether Envoy has said where its admin interface listens.
func (p *process) readAdminAddress() bool {
	content, err := os.ReadFile(p.adminFile)
	if err != nil {
		return false
	}
	p.admin = strings.TrimSpace(string(content))
	return p.admin != ""
}

func (p *process) tail() string { return p.stderr.String() }

// lastLines keeps the end of what is written.
type lastLines struct {
	mu  sync.Mutex
	buf []byte
}

const keptLog = 8 << 10

func (l *lastLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, b...)
	if over := len(l.buf) - keptLog; over > 0 {
		l.buf = bytes.Clone(l.buf[over:])
	}
	return len(b), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}

// bootstrap has the server as its only static cluster, and the marker's runtime layer.
func bootstrap(o Options, port uint32) ([]byte, error) {
	protocol, err := anypb.New(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{},
			},
		},
	})
	if err != nil {
		return nil, err
	}
	xds := StaticCluster(xdsCluster, fmt.Sprintf("127.0.0.1:%d", port))
	xds.TypedExtensionProtocolOptions = map[string]*anypb.Any{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": protocol,
	}
	return protojson.Marshal(&bootstrapv3.Bootstrap{
		Node:            &corev3.Node{Id: "adscript", Cluster: "adscript", Metadata: o.Metadata},
		Admin:           &bootstrapv3.Admin{Address: address("127.0.0.1:0")},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{xds}},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{
			AdsConfig: ads(o),
			CdsConfig: overADS(0),
			LdsConfig: overADS(0),
		},
		LayeredRuntime: &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
			Name: markerName,
			LayerSpecifier: &bootstrapv3.RuntimeLayer_RtdsLayer_{RtdsLayer: &bootstrapv3.RuntimeLayer_RtdsLayer{
				Name: markerName, RtdsConfig: overADS(0),
			}},
		}}},
	})
}

func ads(o Options) *corev3.ApiConfigSource {
	api := corev3.ApiConfigSource_DELTA_GRPC
	if o.StateOfTheWorld {
		api = corev3.ApiConfigSource_GRPC
	}
	return &corev3.ApiConfigSource{
		ApiType:                   api,
		TransportApiVersion:       corev3.ApiVersion_V3,
		SetNodeOnFirstMessageOnly: !o.NodeInEveryMessage,
		GrpcServices: []*corev3.GrpcService{{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
				ClusterName: xdsCluster,
				RetryPolicy: &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
					BaseInterval: durationpb.New(10 * time.Millisecond),
					MaxInterval:  durationpb.New(100 * time.Millisecond),
				}},
			}},
		}},
	}
}
