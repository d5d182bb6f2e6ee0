package envoymodel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/testkit/envoymodel"
)

// realPeer is a real Envoy of its own and the server that it talks to.
//
// How it knows that Envoy has read everything: Envoy reads a stream in order and on one thread, and its bootstrap has a layer of
// runtime values over the same stream. So it sends one of these, and what Envoy said before it acknowledged that is
// what it had to say. It does so until nothing new comes with two of them.
type realPeer struct {
	protocol envoymodel.Protocol
	dir      string
	process  *exec.Cmd
	exited   chan struct{}
	server   *grpc.Server
	admin    *http.Client

	streams chan *adsStream
	stream  *adsStream
	said    []proto.Message
	probes  int
}

// adsStream is one stream, of either variant.
type adsStream struct {
	send     func(proto.Message) error
	requests chan proto.Message // closed with the stream
	end      chan struct{}
}

const (
	runtimeURL = "type.googleapis.com/envoy.service.runtime.v3.Runtime"
	patience   = 60 * time.Second // how long a step of Envoy's may take on a machine that is busy
)

func startReal(binary string, s *envoymodel.Script) (*realPeer, error) {
	dir, err := os.MkdirTemp("", "model")
	if err != nil {
		return nil, err
	}
	p := &realPeer{protocol: s.Protocol, dir: dir, streams: make(chan *adsStream, 8), exited: make(chan struct{})}
	listener, err := net.Listen("unix", filepath.Join(dir, "xds"))
	if err != nil {
		return nil, err
	}
	p.server = grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(p.server, &adsServer{streams: p.streams})
	go func() { _ = p.server.Serve(listener) }()
	p.admin = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "admin"))
	}}}
	if err := p.run(binary, s.Drain); err != nil {
		p.Close()
		return nil, err
	}
	if err := p.accept(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *realPeer) run(binary string, drain time.Duration) error {
	file := filepath.Join(p.dir, "bootstrap.yaml")
	api := map[envoymodel.Protocol]string{envoymodel.Delta: "DELTA_GRPC", envoymodel.StateOfTheWorld: "GRPC"}[p.protocol]
	text := strings.NewReplacer("$DIR", p.dir, "$API", api).Replace(bootstrap)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return err
	}
	p.process = exec.Command(binary, "-c", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning",
		"--drain-time-s", fmt.Sprint(int(drain.Seconds())), "--drain-strategy", "immediate")
	p.process.Stdout, p.process.Stderr = log, log
	p.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.process.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.process.Wait()
		_ = log.Close()
		close(p.exited)
	}()
	return nil
}

const bootstrap = `
node: {id: model, cluster: model}
admin: {address: {pipe: {path: "$DIR/admin"}}}
layered_runtime:
  layers:
  - name: probe
    rtds_layer: {name: probe, rtds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}}
dynamic_resources:
  ads_config:
    api_type: $API
    transport_api_version: V3
    set_node_on_first_message_only: true
    grpc_services:
    - envoy_grpc: {cluster_name: xds, retry_policy: {retry_back_off: {base_interval: 0.01s, max_interval: 0.05s}}}
  cds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}
  lds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}
static_resources:
  clusters:
  - name: xds
    connect_timeout: 1s
    load_assignment:
      cluster_name: xds
      endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: "$DIR/xds"}}}}]}]
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
`

// Close ends the Envoy and the server, and removes what they left.
func (p *realPeer) Close() {
	if p.process != nil && p.process.Process != nil {
		_ = p.process.Process.Kill()
		<-p.exited
	}
	if p.stream != nil {
		close(p.stream.end)
	}
	p.server.Stop()
	_ = os.RemoveAll(p.dir)
}

func (p *realPeer) accept() error {
	select {
	case p.stream = <-p.streams:
		return nil
	case <-p.exited:
		log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
		return fmt.Errorf("Envoy ended:\n%s", log)
	case <-time.After(patience):
		return fmt.Errorf("Envoy opens no stream")
	}
}

// Deliver sends one response.
func (p *realPeer) Deliver(response proto.Message) error { return p.stream.send(response) }

// Drop ends the stream when Envoy has read all of it.
func (p *realPeer) Drop() error {
	if err := p.probe(); err != nil {
		return err
	}
	close(p.stream.end)
	return p.accept()
}

// Pass waits.
func (p *realPeer) Pass(d time.Duration) error {
	<-time.After(d)
	return nil
}

// Settle waits until Envoy has read everything and says nothing more.
func (p *realPeer) Settle() ([]proto.Message, envoymodel.Summary, error) {
	last, err := p.summary()
	for quiet := 0; quiet < 2 && err == nil; quiet++ {
		before := len(p.said)
		if err = p.probe(); err != nil {
			break
		}
		var now envoymodel.Summary
		if now, err = p.summary(); len(p.said) > before || !reflect.DeepEqual(now, last) {
			quiet = -1
		}
		last = now
	}
	said := p.said
	p.said = nil
	return said, last, err
}

// probe sends a runtime value and reads requests until it is acknowledged.
func (p *realPeer) probe() error {
	p.probes++
	nonce := fmt.Sprintf("probe%d", p.probes)
	asked := p.probes > 1
	timeout := time.After(patience)
	for {
		if asked {
			if err := p.stream.send(p.value(nonce)); err != nil {
				return err
			}
			asked = false
		}
		select {
		case m, ok := <-p.stream.requests:
			if !ok {
				return io.ErrUnexpectedEOF
			}
			typ, answers := head(m)
			switch {
			case typ != runtimeURL:
				p.said = append(p.said, m)
			case answers == nonce:
				return nil
			case answers == "":
				asked = true
			}
		case <-p.exited:
			log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
			return fmt.Errorf("Envoy ended:\n%s", log)
		case <-timeout:
			return fmt.Errorf("Envoy does not answer %s", nonce)
		}
	}
}

func (p *realPeer) value(nonce string) proto.Message {
	body, _ := anypb.New(&runtimev3.Runtime{Name: "probe"})
	if p.protocol == envoymodel.StateOfTheWorld {
		return &discoveryv3.DiscoveryResponse{TypeUrl: runtimeURL, Nonce: nonce, VersionInfo: nonce, Resources: []*anypb.Any{body}}
	}
	return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: runtimeURL, Nonce: nonce, Resources: []*discoveryv3.Resource{
		{Name: "probe", Version: nonce, Resource: body},
	}}
}

func head(m proto.Message) (typeURL, nonce string) {
	switch r := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		return r.GetTypeUrl(), r.GetResponseNonce()
	case *discoveryv3.DiscoveryRequest:
		return r.GetTypeUrl(), r.GetResponseNonce()
	}
	return "", ""
}

// summary asks the admin interface. It reads only the fields that it needs, so that an Envoy that adds some still does.
func (p *realPeer) summary() (envoymodel.Summary, error) {
	var dump struct {
		Configs []struct {
			Clusters  []versioned `json:"dynamic_active_clusters"`
			Warming   []versioned `json:"dynamic_warming_clusters"`
			Listeners []struct {
				Name    string
				Active  *listenerState `json:"active_state"`
				Warming *listenerState `json:"warming_state"`
			} `json:"dynamic_listeners"`
			Routes []versioned `json:"dynamic_route_configs"`
		}
	}
	s := envoymodel.Summary{
		Clusters: map[string]string{}, WarmingClusters: map[string]string{}, Listeners: map[string]string{},
		WarmingListeners: map[string]string{}, Routes: map[string]string{}, Hosts: map[string][]string{},
	}
	if err := p.get("/config_dump", &dump); err != nil {
		return s, err
	}
	for _, c := range dump.Configs {
		for _, v := range c.Clusters {
			s.Clusters[v.Cluster.Name] = v.Version
		}
		for _, v := range c.Warming {
			s.WarmingClusters[v.Cluster.Name] = v.Version
		}
		for _, l := range c.Listeners {
			if l.Active != nil {
				s.Listeners[l.Name] = l.Active.String()
			}
			if l.Warming != nil {
				s.WarmingListeners[l.Name] = l.Warming.String()
			}
		}
		for _, v := range c.Routes {
			s.Routes[v.Route.Name] = v.Version
		}
	}
	return s, p.hosts(&s)
}

type versioned struct {
	Version string `json:"version_info"`
	Cluster named
	Route   named `json:"route_config"`
}

type named struct{ Name string }

type listenerState struct {
	Version  string `json:"version_info"`
	Listener struct {
		Chains []struct {
			Filters []struct {
				Config struct {
					Prefix  string `json:"stat_prefix"`
					Cluster string
					RDS     struct {
						Name string `json:"route_config_name"`
					}
				} `json:"typed_config"`
			}
		} `json:"filter_chains"`
	}
}

// String is as in Summary.
func (l *listenerState) String() string {
	f := l.Listener.Chains[0].Filters[0].Config
	if f.Cluster != "" {
		return l.Version + "(" + f.Prefix + ">>" + f.Cluster + ")"
	}
	return l.Version + "(" + f.Prefix + ">" + f.RDS.Name + ")"
}

func (p *realPeer) hosts(s *envoymodel.Summary) error {
	var status struct {
		Clusters []struct {
			Name  string
			Hosts []struct {
				Address struct {
					Socket struct {
						Port int `json:"port_value"`
					} `json:"socket_address"`
				}
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := p.get("/clusters?format=json", &status); err != nil {
		return err
	}
	for _, c := range status.Clusters {
		if c.Name == "xds" {
			continue
		}
		ports := []string{}
		for _, h := range c.Hosts {
			ports = append(ports, fmt.Sprint(h.Address.Socket.Port))
		}
		slices.Sort(ports)
		s.Hosts[c.Name] = ports
	}
	return nil
}

func (p *realPeer) get(path string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin"+path, nil)
	if err != nil {
		return err
	}
	resp, err := p.admin.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(into)
}

// adsServer hands each stream to whoever waits for it.
type adsServer struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	streams chan *adsStream
}

func (s *adsServer) DeltaAggregatedResources(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.serve(
		func(m proto.Message) error { return g.Send(m.(*discoveryv3.DeltaDiscoveryResponse)) },
		func() (proto.Message, error) { return g.Recv() },
	)
}

func (s *adsServer) StreamAggregatedResources(g discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.serve(
		func(m proto.Message) error { return g.Send(m.(*discoveryv3.DiscoveryResponse)) },
		func() (proto.Message, error) { return g.Recv() },
	)
}

func (s *adsServer) serve(send func(proto.Message) error, receive func() (proto.Message, error)) error {
	stream := &adsStream{send: send, requests: make(chan proto.Message, 1024), end: make(chan struct{})}
	s.streams <- stream
	go func() {
		defer close(stream.requests)
		for {
			m, err := receive()
			if err != nil {
				return
			}
			select {
			case stream.requests <- m:
			case <-stream.end:
				return
			}
		}
	}()
	<-stream.end
	return nil
}
