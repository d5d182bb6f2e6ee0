package evaluate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	filterchainv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/filter_chain/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/policy"
)

// Config is the part of a proxy's configuration that calls to its workload meet.
type Config struct {
	Listeners []*listenerv3.Listener
	// Extensions are filters that are delivered on their own (ECDS), by name.
	Extensions map[string]*anypb.Any
}

// Decide says what the proxy does with a call to its workload: by the filters of the filter chain
// that takes it. The path is normalized as the chain says.
func (c Config) Decide(call policy.Call) (policy.Report, error) {
	found, name := c.chain(call)
	if found == nil {
		return closes("the proxy has no filter chain for such a connection"), nil
	}
	in, err := c.inbound(found)
	if err != nil {
		return policy.Report{}, err
	}
	notes := []string{"the call comes to the filter chain " + name}
	if call.Identity != "" && found.GetTransportSocket() == nil {
		call.Identity = ""
		notes = append(notes, "the chain ends no TLS of the mesh, so the caller has no identity")
	}
	switch {
	case in.manager == nil && !call.TCP:
		notes = append(notes, "the chain takes bytes, so attributes of requests do not count")
		call.TCP = true
	case in.manager != nil && !call.TCP:
		call.Path = policy.NormalizePath(call.Path, pathsOf(in.manager))
	}
	r, err := Decide(in.filters, call)
	if in.closed && err == nil && r.Outcome != policy.Denied {
		r.Outcome, r.Reason, r.By, r.Providers = policy.Denied, "the filter chain leads nowhere", nil, nil
	}
	r.Notes = append(notes, r.Notes...)
	return r, err
}

func closes(reason string) policy.Report {
	return policy.Report{Outcome: policy.Denied, Reason: reason}
}

// pathsOf is how a connection manager normalizes paths.
func pathsOf(m *hcmv3.HttpConnectionManager) model.PathNormalization {
	switch {
	case m.GetPathWithEscapedSlashesAction() == hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD:
		return model.NormalizeDecode
	case m.GetMergeSlashes():
		return model.NormalizeMergeSlashes
	case m.GetNormalizePath().GetValue():
		return model.NormalizeBase
	}
	return model.NormalizeNone
}

// inbound is the parts of a filter chain.
type inbound struct {
	filters []proto.Message
	manager *hcmv3.HttpConnectionManager // of requests; nil for bytes
	closed  bool                         // it leads nowhere
}

func (c Config) inbound(chain *listenerv3.FilterChain) (in inbound, err error) {
	for _, f := range chain.GetFilters() {
		m, err := c.config(f.GetName(), f.GetTypedConfig(), f.GetConfigDiscovery())
		if err != nil {
			return in, err
		}
		switch m := m.(type) {
		case *tcpv3.TcpProxy:
			in.closed = m.GetCluster() == "BlackHoleCluster"
		case *hcmv3.HttpConnectionManager:
			in.manager = m
		default:
			in.filters = append(in.filters, m)
		}
	}
	for _, f := range in.manager.GetHttpFilters() {
		if f.GetDisabled() {
			continue
		}
		m, err := c.config(f.GetName(), f.GetTypedConfig(), f.GetConfigDiscovery())
		if err != nil {
			return in, err
		}
		own, err := c.listed(m)
		if err != nil {
			return in, err
		}
		in.filters = append(in.filters, own...)
	}
	return in, nil
}

// listed returns the filters of a list (envoy.filters.http.filter_chain), or the one filter that is
// no list.
func (c Config) listed(m proto.Message) (all []proto.Message, err error) {
	switch m := m.(type) {
	case *matchingv3.ExtensionWithMatcher:
		return nil, unknown("a filter with a matcher", m)
	case *filterchainv3.FilterChainConfig:
		for _, f := range m.GetDefaultFilterChain().GetFilters() {
			own, err := c.config(f.GetName(), f.GetTypedConfig(), nil)
			if err != nil {
				return nil, err
			}
			all = append(all, own)
		}
		return all, nil
	default:
		return []proto.Message{m}, nil
	}
}

// config decodes the configuration of a filter, here or delivered on its own. It is nil for a type
// that this program does not have, which is none of those that decide.
func (c Config) config(name string, here *anypb.Any, source *corev3.ExtensionConfigSource) (proto.Message, error) {
	if source != nil {
		if here = cmp.Or(c.Extensions[name], source.GetDefaultConfig()); here == nil {
			return nil, fmt.Errorf("the filter %s is delivered on its own (ECDS), and is not there", name)
		}
	}
	m, err := here.UnmarshalNew()
	if errors.Is(err, protoregistry.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the filter %s: %w", name, err)
	}
	return m, nil
}

// chain returns the filter chain that takes a call, and its name. It is one of a sidecar's inbound
// listeners, for the port or for all ports, or of a gateway's listener for the port. Callers with
// an identity come in TLS of the mesh, and say what it carries.
func (c Config) chain(call policy.Call) (*listenerv3.FilterChain, string) {
	var best *listenerv3.FilterChain
	score, name := 0, ""
	sidecar := slices.ContainsFunc(c.Listeners, isInbound)
	for _, l := range c.Listeners {
		own := l.GetAddress().GetSocketAddress().GetPortValue() == uint32(call.Port)
		if sidecar && !isInbound(l) || !own && !takesAllPorts(l) {
			continue
		}
		for _, chain := range l.GetFilterChains() {
			if s := fit(chain, call); s > 0 {
				if s > score {
					best, score, name = chain, s, l.GetName()+" "+chain.GetName()
				}
			}
		}
	}
	return best, strings.TrimSpace(name)
}

func isInbound(l *listenerv3.Listener) bool {
	return l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND
}

// takesAllPorts reports whether connections to any port are redirected to a listener.
func takesAllPorts(l *listenerv3.Listener) bool {
	return slices.ContainsFunc(l.GetListenerFilters(), func(f *listenerv3.ListenerFilter) bool {
		return f.GetName() == "envoy.filters.listener.original_dst"
	})
}

// fit says how well a chain fits a call, in the order in which Envoy asks: by port, server name,
// TLS, and protocol. 0 does not fit.
func fit(chain *listenerv3.FilterChain, call policy.Call) int {
	m, score := chain.GetFilterChainMatch(), 1
	if port := m.GetDestinationPort(); port != nil {
		if port.GetValue() != uint32(call.Port) {
			return 0
		}
		score += 32
	}
	if len(m.GetServerNames()) > 0 {
		if !slices.ContainsFunc(m.GetServerNames(), func(n string) bool { return named(n, call.SNI) }) {
			return 0
		}
		score += 16
	}
	secure := call.Identity != ""
	switch m.GetTransportProtocol() {
	case "":
	case "tls":
		if !secure {
			return 0
		}
		score += 8
	default:
		if secure {
			return 0
		}
		score += 8
	}
	if protocols := m.GetApplicationProtocols(); len(protocols) > 0 {
		if !slices.ContainsFunc(protocols, func(p string) bool { return slices.Contains(offered(call), p) }) {
			return 0
		}
		score += 4
	}
	return score
}

// offered are the protocols by which a connection is known (ALPN, or the first bytes).
func offered(call policy.Call) []string {
	switch secure := call.Identity != ""; {
	case secure && call.TCP:
		return []string{"istio"}
	case secure:
		return []string{"istio-http/1.1", "istio-h2", "istio"}
	case call.TCP:
		return nil
	}
	return []string{"http/1.1", "h2c"}
}

func named(pattern, name string) bool {
	suffix, wild := strings.CutPrefix(pattern, "*")
	return pattern == name || wild && strings.HasSuffix(name, suffix)
}
