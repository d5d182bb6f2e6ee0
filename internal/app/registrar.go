package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lateen-mesh/lateen/internal/admin/history"
	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// registrar connects streams and classes. It tells the compiler which proxies are connected, and
// the hub which class each belongs to.
type registrar struct {
	compiler   *compile.Compiler
	hub        *fanout.Hub
	config     config.Config
	firstState chan struct{} // closed with the first state
	setReady   func()        // closes it
	secrets    *secretAccess
	machines   *machineConns
	// stated reads what a Pod says of its proxy; what is wrong in it Connect logs.
	stated func(text string) (*model.Stated, []source.Problem)
	// returned is told of classes that are made anew where they ended before; nil for nobody.
	returned func(history.Return)
	log      *slog.Logger

	mu      sync.Mutex
	members map[*fanout.Conn]*compile.Member
	conns   map[*compile.Member]*fanout.Conn
	leavers leavers
}

func newRegistrar(c *compile.Compiler, settings config.Config) *registrar {
	open := make(chan struct{})
	return &registrar{
		compiler:   c,
		config:     settings,
		firstState: open,
		setReady:   sync.OnceFunc(func() { close(open) }),
		secrets:    newSecretAccess(nil, slog.New(slog.DiscardHandler)),
		machines:   newMachineConns(nil, slog.New(slog.DiscardHandler)),
		stated:     convert.New(convert.Options{}).Stated,
		log:        slog.New(slog.DiscardHandler),
		members:    map[*fanout.Conn]*compile.Member{},
		conns:      map[*compile.Member]*fanout.Conn{},
		leavers:    newLeavers(),
	}
}

var errNotReady = errors.New("the first state is not there yet")

func (r *registrar) ready() error {
	select {
	case <-r.firstState:
		return nil
	default:
		return errNotReady
	}
}

// Connect implements serve.Registrar.
func (r *registrar) Connect(ctx context.Context, node *serve.Node, id serve.Identity) (*fanout.Conn, error) {
	if err := r.ready(); err != nil {
		return nil, err
	}
	facts, right, err := r.facts(ctx, node, id)
	if err != nil {
		return nil, err
	}
	r.secrets.report(facts, id, right)
	r.reportStated(node)
	var conn *fanout.Conn
	r.compiler.Join(facts, func(m *compile.Member, p compile.Placement) {
		conn = r.hub.Register(p.Class, p.State, p.Overlay)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.members[conn], r.conns[m] = m, conn
		if r.returned == nil {
			return
		}
		if back, is := r.leavers.joined(m, p); is {
			r.returned(back)
		}
	})
	r.secrets.connected(conn, right)
	if err := r.machines.connected(conn, node, id); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// facts returns what the class of a proxy depends on, and its right to Secrets. The error is a gRPC
// status. It may block.
func (r *registrar) facts(
	ctx context.Context, node *serve.Node, id serve.Identity,
) (facts compile.Facts, right secretRight, err error) {
	if facts, err = factsOf(node); err != nil {
		return facts, right, status.Error(codes.InvalidArgument, err.Error())
	}
	configure(&facts.Proxy, r.config)
	facts.Proxy.Settings.FiltersApart = node.TakesFilters() && !r.config.WholeListeners
	facts.Proxy.Settings.DynamicDNS = facts.Proxy.Type == scope.Sidecar && node.FiltersAddresses()
	facts.Proxy.Settings.Stack = stackOf(node, r.config.DualStack)
	if text := node.Metadata.OwnConfig(); text != "" {
		facts.Stated, _ = r.stated(text)
	}
	facts.Account = id.ServiceAccount // serve saw to it that its namespace is the node's
	if right, err = r.secrets.of(ctx, &facts, id); err != nil {
		return facts, right, status.Error(codes.Unavailable, err.Error())
	}
	return facts, right, nil
}

// configure adds what the settings of the control plane say of a proxy.
func configure(p *scope.Proxy, c config.Config) {
	gateway := p.Type == scope.Router
	p.Settings.AllClusters = gateway && c.AllClusters
	p.Settings.OwnGateways = gateway && c.OwnGateways
	p.Settings.RemoteAddress = !gateway && c.RemoteAddress
	p.Settings.HTTP10 = p.Settings.HTTP10 || c.HTTP10
}

// reportStated logs what is wrong in what a Pod says of its proxy.
func (r *registrar) reportStated(node *serve.Node) {
	text := node.Metadata.OwnConfig()
	if text == "" {
		return
	}
	_, problems := r.stated(text)
	for _, p := range problems {
		r.log.Warn("a part of what a Pod says of its proxy has no effect",
			"pod", node.Namespace+"/"+node.Pod, "field", p.Path, "problem", p.Detail())
	}
}

// makesClass reports whether a class would be compiled for a proxy. It is false for one that
// Connect refuses. It may block.
func (r *registrar) makesClass(ctx context.Context, node *serve.Node, id serve.Identity) bool {
	if r.ready() != nil {
		return false
	}
	facts, _, err := r.facts(ctx, node, id)
	return err == nil && !r.compiler.HasClass(facts)
}

// disconnected is called by the hub when a connection has ended.
func (r *registrar) disconnected(c *fanout.Conn) {
	r.mu.Lock()
	m := r.members[c]
	delete(r.members, c)
	delete(r.conns, m)
	r.mu.Unlock()
	r.secrets.disconnected(c)
	r.machines.disconnected(c)
	if m != nil {
		was := r.compiler.Leave(m)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.returned != nil {
			r.leavers.left(was)
		}
	}
}

// generation converts a step of the compiler for the hub.
func (r *registrar) generation(s compile.Step, d *state.Delta) fanout.Generation {
	g := fanout.Generation{
		Number: s.Generation, Cause: d.Cause(), Observed: d.Observed, Changed: s.Changed,
		RemovesEndpoints: slices.ContainsFunc(d.Endpoints, state.EndpointChange.Removes),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leavers.newest = max(r.leavers.newest, s.LastClass)
	for _, m := range s.Moved {
		if conn := r.conns[m.Member]; conn != nil {
			g.Moved = append(g.Moved, fanout.Move{Conn: conn, Class: m.Class, State: m.State, Overlay: m.Overlay})
		}
	}
	return g
}

// factsOf returns what a proxy's class depends on, from its node metadata.
func factsOf(n *serve.Node) (compile.Facts, error) {
	f := compile.Facts{Proxy: scope.Proxy{
		Address:   n.Address.String(),
		Namespace: n.Namespace, Name: n.Pod, Labels: model.LabelsOf(n.Metadata.Labels),
		Place:   placeOf(n),
		Stating: scope.Stating{Version: n.Metadata.IstioVersion, Metadata: &n.Metadata},
	}}
	switch n.Type {
	case serve.Sidecar:
		f.Proxy.Settings.Intercepted = n.Metadata.InterceptionMode != serve.None
		f.Proxy.Settings.Transparent = n.Metadata.InterceptionMode == serve.TProxy
		if !f.Proxy.Settings.Intercepted { // an intercepted one needs no proxy, and would make a class for each port
			f.Proxy.Settings.HTTPProxyPort = n.Metadata.HTTPProxyPort
		}
		f.Proxy.Settings.DNSCapture = n.Metadata.DNSCapture
	case serve.Router:
		f.Proxy.Type = scope.Router
		var err error
		if f.Proxy.Settings.Topology, err = topologyOf(n); err != nil {
			return f, err
		}
	default:
		return f, errors.New("node type " + strconv.Quote(string(n.Type)) +
			" is not supported yet; want sidecar or router")
	}
	f.Proxy.Settings.HTTP10 = n.Metadata.HTTP10
	f.Proxy.Settings.Agent = n.Metadata.HasAgent()
	f.Proxy.Settings.Metrics = n.Metadata.LateenStats == proxystats.MetadataValue
	f.Proxy.Settings.IstioFilters = n.IstioFilters
	return f, nil
}

// topologyOf returns what a gateway states to stand in front of it.
func topologyOf(n *serve.Node) (model.StatedTopology, error) {
	own, err := n.Metadata.GatewayTopology()
	if err != nil || own == nil {
		return 0, err
	}
	header, known := model.ClientCertHeaderOf(own.ClientCert)
	if !known {
		return 0, fmt.Errorf("metadata PROXY_CONFIG.gatewayTopology.forwardClientCertDetails = %q: want %s",
			own.ClientCert, model.ClientCertHeaders)
	}
	if own.TrustedProxies >= model.MaxTrustedProxies {
		return 0, fmt.Errorf("metadata PROXY_CONFIG.gatewayTopology.numTrustedProxies = %d: want less than %d",
			own.TrustedProxies, model.MaxTrustedProxies)
	}
	return model.GatewayTopology{
		TrustedProxies: own.TrustedProxies, ClientCert: header, ProxyProtocol: own.ProxyProtocol,
	}.Stated(), nil
}

// stackOf returns the address families of a node: those of its instance addresses, or else that of
// the address in its ID.
func stackOf(n *serve.Node, dual bool) model.Stack {
	all := n.Metadata.InstanceIPs
	if len(all) == 0 {
		all = []netip.Addr{n.Address}
	}
	has4 := slices.ContainsFunc(all, func(a netip.Addr) bool { return a.Unmap().Is4() })
	has6 := slices.ContainsFunc(all, func(a netip.Addr) bool { return a.Unmap().Is6() })
	switch {
	case has4 && has6 && dual:
		return model.DualStack
	case has4 && has6:
		return model.BothStacks
	case has6:
		return model.IPv6Stack
	}
	return model.IPv4Stack
}

// placeOf returns where a node runs, nil if it does not say.
func placeOf(n *serve.Node) *scope.Place {
	at := scope.Place{
		Locality: model.Locality{Region: n.Locality.Region, Zone: n.Locality.Zone, Subzone: n.Locality.SubZone},
		Node:     n.Metadata.NodeName,
	}
	if at == (scope.Place{}) {
		return nil
	}
	return &at
}
