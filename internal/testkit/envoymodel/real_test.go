package envoymodel_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
	"github.com/lateen-mesh/lateen/internal/testkit/envoymodel"
)

// realPeer is a real Envoy of its own.
type realPeer struct {
	protocol envoymodel.Protocol
	run      *adscript.Run
	mark     int // in the log of requests

	timed bool          // something happens by itself, after some time
	since time.Time     // when the last pause ended
	busy  time.Duration // the longest time without a pause until something was seen
}

// shortest is that of the times after which something happens by itself: Envoy's drain and the
// fetch timeouts of scripts.
const shortest = time.Second

// late tells that something may have happened before it was looked for, since all before it took so
// long.
func (p *realPeer) late() bool { return p.timed && p.busy >= shortest }

func startReal(t *testing.T, s *envoymodel.Script) *realPeer {
	run := adscript.Start(t, adscript.Options{
		StateOfTheWorld: s.Protocol == envoymodel.StateOfTheWorld,
		Drain:           s.Drain,
	})
	timed := slices.ContainsFunc(s.Steps, func(st envoymodel.Step) bool { return st.Op == "pass" })
	return &realPeer{
		protocol: s.Protocol,
		run:      run,
		timed:    timed || s.Drain != envoymodel.DefaultDrain,
		since:    time.Now(),
	}
}

// Deliver sends one response.
func (p *realPeer) Deliver(response proto.Message) error {
	var out adscript.Response
	switch r := response.(type) {
	case *discoveryv3.DeltaDiscoveryResponse:
		out = adscript.Removal(adscript.Type(r.GetTypeUrl()), r.GetRemovedResources()...)
		out.Nonce, out.Version = r.GetNonce(), r.GetSystemVersionInfo()
		for _, res := range r.GetResources() {
			out.Resources = append(out.Resources, adscript.Resource{
				Name: res.GetName(), Version: res.GetVersion(), Raw: res.GetResource().GetValue(),
			})
		}
	case *discoveryv3.DiscoveryResponse:
		out = adscript.Response{Type: adscript.Type(r.GetTypeUrl()), Nonce: r.GetNonce(), Version: r.GetVersionInfo()}
		for _, body := range r.GetResources() {
			out.Resources = append(out.Resources, adscript.Resource{Raw: body.GetValue()})
		}
	}
	p.run.Send(out)
	return nil
}

// Drop ends the stream when Envoy has read all of it.
func (p *realPeer) Drop() error {
	p.run.Settle()
	p.run.Drop()
	p.run.Settle() // on the next stream
	return nil
}

// Pass waits.
func (p *realPeer) Pass(d time.Duration) error {
	<-time.After(d)
	p.since = time.Now()
	return nil
}

// Settle waits until Envoy has read everything, says nothing more and stays as it is.
func (p *realPeer) Settle() ([]proto.Message, envoymodel.Summary, error) {
	p.run.Settle()
	said, has := p.run.Since(p.mark), p.summary()
	for {
		p.run.Settle()
		lately, now := p.run.Since(p.mark), p.summary()
		if len(lately) == len(said) && reflect.DeepEqual(has, now) {
			break
		}
		said, has = lately, now
	}
	p.busy = max(p.busy, time.Since(p.since))
	p.mark = p.run.Mark()
	var out []proto.Message
	for _, r := range said {
		out = append(out, p.request(r))
	}
	return out, has, nil
}

func (p *realPeer) request(r adscript.Request) proto.Message {
	if p.protocol == envoymodel.StateOfTheWorld {
		return &discoveryv3.DiscoveryRequest{
			TypeUrl:       string(r.Type),
			ResourceNames: r.Names,
			VersionInfo:   r.Version,
			ResponseNonce: r.Nonce,
			ErrorDetail:   r.Error,
		}
	}
	return &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: string(r.Type), ResourceNamesSubscribe: r.Subscribe, ResourceNamesUnsubscribe: r.Unsubscribe,
		InitialResourceVersions: r.InitialVersions, ResponseNonce: r.Nonce, ErrorDetail: r.Error,
	}
}

func (p *realPeer) summary() envoymodel.Summary {
	dump := p.run.Config()
	s := envoymodel.Summary{
		Clusters: versions(dump.Clusters), WarmingClusters: versions(dump.WarmingClusters),
		Listeners: versions(dump.Listeners), WarmingListeners: versions(dump.WarmingListeners),
		Routes: versions(dump.Routes), Filters: versions(dump.Filters), Hosts: map[string][]string{},
	}
	for name, status := range p.run.ActiveClusters() {
		ports := []string{}
		for _, h := range status.GetHostStatuses() {
			ports = append(ports, fmt.Sprint(h.GetAddress().GetSocketAddress().GetPortValue()))
		}
		slices.Sort(ports)
		s.Hosts[name] = ports
	}
	return s
}

func versions(held map[string]adscript.Held) map[string]string {
	out := map[string]string{}
	for name := range maps.Keys(held) {
		out[name] = held[name].Version
		if l, ok := held[name].Body.(*listenerv3.Listener); ok {
			out[name] += "(" + label(l) + ")"
		}
		if table, ok := held[name].Body.(*routev3.RouteConfiguration); ok {
			out[name] += envoymodel.DescribeHosts(table)
		}
	}
	return out
}

// label says what the filter of a listener does, as Summary has it.
func label(l *listenerv3.Listener) string {
	m, err := l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalNew()
	if err != nil {
		return err.Error()
	}
	switch f := m.(type) {
	case *hcmv3.HttpConnectionManager:
		text := f.GetStatPrefix() + ">" + f.GetRds().GetRouteConfigName()
		for _, h := range f.GetHttpFilters() {
			if h.GetConfigDiscovery() != nil {
				text += "+" + h.GetName()
			}
		}
		return text
	case *tcpv3.TcpProxy:
		return f.GetStatPrefix() + ">>" + f.GetCluster()
	}
	return ""
}
