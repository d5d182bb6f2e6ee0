package cluster_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

// header is the first document of a golden case: which cluster is meant. The documents behind it
// are a Service or a ServiceEntry, and at most one DestinationRule, as people write them.
type header struct {
	Port                  uint16
	Subset                string
	Gateway, ForwardProxy bool
	LocalityWeights       bool
	Zones                 cluster.Zones
	Sessions              bool
	KeepsCase             bool
	Forwarded, AutoTLS    bool
	Exchange              bool
	Stack                 string
	Names                 []string
	TLS                   *model.TLSParams
	DNSRefresh            metav1.Duration // 0 for the default of a mesh
	UpgradeHTTP2          bool
	Defaults              *model.ClusterDefaults
	StatName              string
	Secured               bool // the credential that the rule wants is there
	// Problems tells that the documents have faults, which the conversion reports.
	Problems bool

	Inbound *struct {
		Port, EndpointPort uint16
		Address, Protocol  string
		ConnectTimeout     metav1.Duration
		Intercepted        bool
		KeepsCase          bool
		Pool               *model.ConnectionPool
		Defaults           *model.ClusterDefaults
		StatName           string
		Stack              string // a key of translatetest.Stacks
		Services           []cluster.NamedService
	}
	Passthrough *struct {
		Inbound, ForwardProxy bool
		DynamicDNS            bool
		Defaults              *model.ClusterDefaults
		KeepsCase             bool
		ConnectTimeout        metav1.Duration
		Stack                 string
	}
	BlackHole bool
}

func TestGolden(t *testing.T) {
	translatetest.Golden(t, func(t *testing.T, text []byte) proto.Message {
		first, manifests, _ := strings.Cut(string(text), "\n---\n")
		var h header
		require.NoError(t, yaml.UnmarshalStrict([]byte(first), &h))
		switch {
		case h.Inbound != nil:
			return cluster.Inbound(cluster.InboundInput{
				Port:           h.Inbound.Port,
				Address:        h.Inbound.Address,
				EndpointPort:   h.Inbound.EndpointPort,
				Protocol:       protocol(t, h.Inbound.Protocol),
				ConnectTimeout: h.Inbound.ConnectTimeout.Duration,
				Intercepted:    h.Inbound.Intercepted,
				KeepsCase:      h.Inbound.KeepsCase,
				Pool:           h.Inbound.Pool,
				Defaults:       h.Inbound.Defaults,
				StatName:       h.Inbound.StatName,
				Stack:          translatetest.Stacks[h.Inbound.Stack],
				Services:       model.NewInterner[cluster.NamedService]().List(h.Inbound.Services),
			})
		case h.Passthrough != nil:
			return cluster.Passthrough(cluster.PassthroughInput{
				Inbound:        h.Passthrough.Inbound,
				ForwardProxy:   h.Passthrough.ForwardProxy,
				DynamicDNS:     h.Passthrough.DynamicDNS,
				Defaults:       h.Passthrough.Defaults,
				KeepsCase:      h.Passthrough.KeepsCase,
				ConnectTimeout: h.Passthrough.ConnectTimeout.Duration,
				Stack:          translatetest.Stacks[h.Passthrough.Stack],
			})
		case h.BlackHole:
			return cluster.BlackHole()
		}
		return cluster.Outbound(h.outbound(t, manifests))
	})
}

func TestEnvoyTakesEveryGoldenOutput(t *testing.T) {
	runnable := translatetest.Runnable(t)
	resources := &bootstrapv3.Bootstrap_StaticResources{}
	for _, name := range translatetest.Outputs(t) {
		c := &clusterv3.Cluster{}
		translatetest.Output(t, name, runnable, c)
		c.Name = name                                                             // cases name the same cluster
		c.Filters = slices.DeleteFunc(c.Filters, func(f *clusterv3.Filter) bool { // a stock Envoy has no such filter
			return f.GetName() == pb.ExchangeFilter
		})
		resources.Clusters = append(resources.Clusters, c)
	}
	translatetest.RequireValid(t, resources)
}

func (h *header) outbound(t *testing.T, manifests string) cluster.OutboundInput {
	t.Helper()
	service, rule, backend := h.read(t, manifests)
	port, ok := service.Port(h.Port)
	require.True(t, ok, "the service has no port %d", h.Port)
	in := cluster.OutboundInput{
		Host:            service.Host,
		Port:            h.Port,
		Subset:          h.Subset,
		Protocol:        port.Protocol,
		Resolution:      service.Resolution,
		External:        service.External,
		Gateway:         h.Gateway,
		ForwardProxy:    h.ForwardProxy,
		LocalityWeights: h.LocalityWeights,
		Zones:           h.Zones,
		Sessions:        h.Sessions,
		KeepsCase:       h.KeepsCase,
		UpgradeHTTP2:    h.UpgradeHTTP2,
		Defaults:        h.Defaults,
		StatName:        h.StatName,
		Secured:         h.Secured,
		Forwarded:       h.Forwarded,
		TLS:             h.TLS,
		AutoTLS:         h.AutoTLS,
		Exchange:        h.Exchange,
		Names:           model.NewInterner[string]().List(h.Names),
		Stack:           translatetest.Stacks[h.Stack],
		Backend:         backend,
		Service:         service.Namespace + "/" + service.Name,
		ConnectTimeout:  model.DefaultMesh().ConnectTimeout,
		DNSRefresh:      cmp.Or(h.DNSRefresh.Duration, model.DefaultMesh().DNSRefresh),
	}
	if service.Kind == kinds.ServiceEntry {
		in.Service = service.Namespace + "/" + string(service.Host)
	}
	if service.Resolution.IsByDNS() {
		in.Endpoints = lookupsOf(service.Endpoints, port.Name)
	}
	if rule != nil {
		require.True(t, rule.Host.Covers(service.Host), "the rule is for %s", rule.Host)
		in.Rule, in.Policy = rule.Namespace+"/"+rule.Name, rule.Policy
		subset, _ := rule.Subset(h.Subset)
		in.SubsetPolicy = subset.Policy
	}
	return in
}

// lookupsOf are the endpoints of a port by locality, as callers without a preference see them.
func lookupsOf(endpoints []model.Endpoint, port string) *model.List[cluster.LookupGroup] {
	byLocality := map[model.Locality][]cluster.Lookup{}
	for _, e := range endpoints {
		if e.PortName == port {
			byLocality[e.Locality] = append(byLocality[e.Locality], cluster.Lookup{
				Address: e.Address, Port: e.Port, Weight: e.Weight,
			})
		}
	}
	var groups []cluster.LookupGroup
	for at, members := range byLocality {
		groups = append(groups, cluster.LookupGroup{
			Locality: at, Members: model.NewInterner[cluster.Lookup]().List(members),
		})
	}
	slices.SortFunc(groups, func(a, b cluster.LookupGroup) int {
		return cmp.Compare(a.Locality.String(), b.Locality.String())
	})
	return model.NewInterner[cluster.LookupGroup]().List(groups)
}

func (h *header) read(t *testing.T, manifests string) (
	service *model.Service, rule *model.DestinationRule, backend *model.TrafficPolicy,
) {
	t.Helper()
	documents, problems := manifest.Read("case.yaml", []byte(manifests))
	converter := convert.New(convert.Options{})
	for _, d := range documents {
		result := converter.Convert(d.Change(time.Time{}), model.DefaultMesh())
		problems = append(problems, result.Problems...)
		for _, object := range result.Objects {
			switch o := object.(type) {
			case *model.Service:
				service = o
			case *model.BackendTLSPolicy:
				backend = &model.TrafficPolicy{TLS: &o.TLS}
			case *model.CertificateBundle:
				backend.TLS.Authorities = o.Certificates
			case *model.DestinationRule:
				rule = o
			}
		}
	}
	if !h.Problems {
		require.Empty(t, problems)
	}
	require.NotNil(t, service, "want a Service or a ServiceEntry")
	return service, rule, backend
}

func protocol(t *testing.T, name string) model.Protocol {
	t.Helper()
	for p := model.Auto; p <= model.GRPCWeb; p++ {
		if p.String() == name {
			return p
		}
	}
	t.Fatalf("protocol %q: want one that model knows", name)
	return model.Auto
}
