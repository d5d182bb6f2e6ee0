package adscript

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Held is a resource that Envoy holds.
type Held struct {
	Version string
	Body    proto.Message
}

// Config is what config_dump says of resources from the server. A name may be in more than one map
// of a kind: a listener that is replaced is active, warming and draining.
type Config struct {
	Clusters, WarmingClusters                      map[string]Held
	Listeners, WarmingListeners, DrainingListeners map[string]Held
	Routes                                         map[string]Held // with the virtual hosts that VHDS brought
	Filters                                        map[string]Held // the newest, in force or refused
	Secrets, WarmingSecrets                        map[string]Held // without their keys
}

// Config reads config_dump.
func (r *Run) Config() Config {
	r.t.Helper()
	var dump struct {
		Configs []json.RawMessage `json:"configs"`
	}
	if err := json.Unmarshal(r.Admin("/config_dump"), &dump); err != nil {
		r.t.Fatalf("adscript: config_dump: %v", err)
	}
	c := Config{
		Clusters: map[string]Held{}, WarmingClusters: map[string]Held{},
		Listeners: map[string]Held{}, WarmingListeners: map[string]Held{}, DrainingListeners: map[string]Held{},
		Routes: map[string]Held{}, Filters: map[string]Held{},
		Secrets: map[string]Held{}, WarmingSecrets: map[string]Held{},
	}
	for _, raw := range dump.Configs {
		if err := c.add(raw); err != nil {
			r.t.Fatalf("adscript: config_dump: %v", err)
		}
	}
	return c
}

// parts are the types of the dump's parts that are read.
var parts = []string{
	"ClustersConfigDump", "ListenersConfigDump", "RoutesConfigDump", "SecretsConfigDump", "EcdsConfigDump",
}

// add takes one of the dump's parts. The bootstrap is left alone: it names extensions that are not
// linked into the test.
func (c Config) add(raw json.RawMessage) error {
	var head struct {
		Type string `json:"@type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	if !slices.Contains(parts, head.Type[strings.LastIndex(head.Type, ".")+1:]) {
		return nil
	}
	var part anypb.Any
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &part); err != nil {
		return err
	}
	m, err := part.UnmarshalNew()
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *adminv3.ClustersConfigDump:
		return c.addClusters(m)
	case *adminv3.ListenersConfigDump:
		return c.addListeners(m)
	case *adminv3.RoutesConfigDump:
		return c.addRoutes(m)
	case *adminv3.SecretsConfigDump:
		return c.addSecrets(m)
	case *adminv3.EcdsConfigDump:
		for _, d := range m.GetEcdsFilters() {
			if err := hold(c.Filters, d.GetVersionInfo(), d.GetEcdsFilter()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c Config) addClusters(m *adminv3.ClustersConfigDump) error {
	for _, d := range m.GetDynamicActiveClusters() {
		if err := hold(c.Clusters, d.GetVersionInfo(), d.GetCluster()); err != nil {
			return err
		}
	}
	for _, d := range m.GetDynamicWarmingClusters() {
		if err := hold(c.WarmingClusters, d.GetVersionInfo(), d.GetCluster()); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) addListeners(m *adminv3.ListenersConfigDump) error {
	for _, d := range m.GetDynamicListeners() {
		for _, s := range []struct {
			into  map[string]Held
			state *adminv3.ListenersConfigDump_DynamicListenerState
		}{
			{c.Listeners, d.GetActiveState()},
			{c.WarmingListeners, d.GetWarmingState()},
			{c.DrainingListeners, d.GetDrainingState()},
		} {
			if s.state == nil {
				continue
			}
			if err := hold(s.into, s.state.GetVersionInfo(), s.state.GetListener()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c Config) addRoutes(m *adminv3.RoutesConfigDump) error {
	for _, d := range m.GetDynamicRouteConfigs() {
		if err := hold(c.Routes, d.GetVersionInfo(), d.GetRouteConfig()); err != nil {
			return err
		}
	}
	return nil
}

func (c Config) addSecrets(m *adminv3.SecretsConfigDump) error {
	for into, all := range map[*map[string]Held][]*adminv3.SecretsConfigDump_DynamicSecret{
		&c.Secrets: m.GetDynamicActiveSecrets(), &c.WarmingSecrets: m.GetDynamicWarmingSecrets(),
	} {
		for _, d := range all {
			if err := hold(*into, d.GetVersionInfo(), d.GetSecret()); err != nil {
				return err
			}
		}
	}
	return nil
}

func hold(into map[string]Held, version string, body *anypb.Any) error {
	m, err := body.UnmarshalNew()
	if err != nil {
		return err
	}
	into[nameOf(m)] = Held{Version: version, Body: m}
	return nil
}

// ActiveClusters is /clusters: what the clusters that are not warming have as hosts.
func (r *Run) ActiveClusters() map[string]*adminv3.ClusterStatus {
	r.t.Helper()
	var all adminv3.Clusters
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(r.Admin("/clusters?format=json"),
		&all); err != nil {
		r.t.Fatalf("adscript: clusters: %v", err)
	}
	clusters := map[string]*adminv3.ClusterStatus{}
	for _, s := range all.GetClusterStatuses() {
		if s.GetName() != xdsCluster {
			clusters[s.GetName()] = s
		}
	}
	return clusters
}

// Hosts are the endpoints, host:port, of a cluster in use, sorted; nil if there is no such cluster.
func (r *Run) Hosts(cluster string) []string {
	r.t.Helper()
	status := r.ActiveClusters()[cluster]
	if status == nil {
		return nil
	}
	hosts := []string{}
	for _, h := range status.GetHostStatuses() {
		a := h.GetAddress().GetSocketAddress()
		hosts = append(hosts, net.JoinHostPort(a.GetAddress(), strconv.Itoa(int(a.GetPortValue()))))
	}
	slices.Sort(hosts)
	return hosts
}

// Stat is a counter or gauge by its full name, and 0 if there is none.
func (r *Run) Stat(name string) int {
	r.t.Helper()
	for line := range strings.Lines(string(r.Admin("/stats"))) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+": "); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				r.t.Fatalf("adscript: stat %s: %v", name, err)
			}
			return n
		}
	}
	return 0
}

// Ready reports whether /ready answers 200.
func (r *Run) Ready() bool {
	r.t.Helper()
	status, _ := r.admin("/ready")
	return status == http.StatusOK
}

// Admin is the body of Envoy's answer at a path of its admin interface.
func (r *Run) Admin(path string) []byte {
	r.t.Helper()
	status, body := r.admin(path)
	if status != http.StatusOK {
		r.t.Fatalf("adscript: %s: %d %s", path, status, body)
	}
	return body
}

func (r *Run) admin(path string) (status int, body []byte) {
	r.t.Helper()
	a, err := get("http://"+r.envoy.admin+path, "")
	if err != nil {
		r.t.Fatalf("adscript: %v", err)
	}
	return a.Status, []byte(a.Body)
}

// Address is where a listener that is in use listens, or invalid if it is not in use.
func (r *Run) Address(listener string) netip.AddrPort {
	r.t.Helper()
	var all adminv3.Listeners
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(r.Admin("/listeners?format=json"),
		&all); err != nil {
		r.t.Fatalf("adscript: listeners: %v", err)
	}
	for _, l := range all.GetListenerStatuses() {
		a := l.GetLocalAddress().GetSocketAddress()
		if ip, err := netip.ParseAddr(a.GetAddress()); err == nil && l.GetName() == listener {
			return netip.AddrPortFrom(ip, uint16(a.GetPortValue()))
		}
	}
	return netip.AddrPort{}
}

// Answer is what a request was answered with.
type Answer struct {
	Status int // 0 if nothing answered
	Body   string
}

func (a Answer) String() string { return fmt.Sprintf("%d %q", a.Status, a.Body) }

// Get sends a request through a listener, on a connection of its own. It is the zero Answer if the
// listener is not in use or the connection ends early.
func (r *Run) Get(listener, host, path string) Answer {
	r.t.Helper()
	return <-r.Later(listener, host, path)
}

// Later is Get for a request that has to wait: it returns at once, and the answer comes on the
// channel.
func (r *Run) Later(listener, host, path string) <-chan Answer {
	r.t.Helper()
	answer := make(chan Answer, 1)
	addr := r.Address(listener)
	if !addr.IsValid() {
		answer <- Answer{}
		return answer
	}
	go func() { answer <- Call(addr, host, path) }()
	return answer
}

// Call is Get by the address of a listener, for any goroutine.
func Call(at netip.AddrPort, host, path string) Answer {
	a, err := get("http://"+at.String()+path, host)
	if err != nil {
		return Answer{}
	}
	return a
}

func get(url, host string) (Answer, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return Answer{}, err
	}
	req.Host, req.Close = host, true
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Body: string(body)}, err
}
