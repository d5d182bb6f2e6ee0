package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
)

type nodeMetadata map[string]string

func (m nodeMetadata) Text(key string) string { return m[key] }

func oracleProxies() []Facts {
	labels := model.LabelsOf(map[string]string{"app": "a", "version": "v1"})
	ofGateway := model.LabelsOf(map[string]string{"app": "a", "version": "v1", model.GatewayNameLabel: "g"})
	return []Facts{
		{Account: "x", Proxy: scope.Proxy{Address: "127.5.0.1",
			Namespace: "default",
			Name:      "a",
			Labels:    labels,
			Settings:  scope.Settings{HTTPProxyPort: 15080, Credentials: scope.AllCredentials, FiltersApart: true},
		}},
		{Proxy: scope.Proxy{Address: "127.5.0.14", // the same without proof
			Namespace: "default", Name: "a", Labels: labels, Settings: scope.Settings{HTTPProxyPort: 15080},
		}},
		{Account: "x", Proxy: scope.Proxy{Address: "127.5.0.2",
			Namespace: "shop",
			Name:      "b",
			Settings:  scope.Settings{HTTPProxyPort: 9080, FiltersApart: true, DynamicDNS: true},
		}},
		{Proxy: scope.Proxy{Address: "127.5.0.3",
			Namespace: "shop",
			Name:      "none",
			Place:     &scope.Place{Node: "n1", Locality: model.Locality{Region: "r1", Zone: "z2"}},
			Labels:    model.LabelsOf(map[string]string{"app": "b", "version": "v2"}),
			Settings:  scope.Settings{HTTPProxyPort: 15080},
		}},
		{Account: "x", Proxy: scope.Proxy{Address: "127.5.0.4",
			Type:      scope.Router,
			Namespace: "istio-system",
			Name:      "a",
			Labels:    ofGateway,
			Settings:  scope.Settings{Credentials: scope.AllCredentials},
		}},
		{Account: "x", Proxy: scope.Proxy{Address: "127.5.0.13",
			Type:      scope.Router,
			Namespace: "istio-system",
			Name:      "a",
			Labels:    labels,
			Settings: scope.Settings{
				Credentials: scope.AllCredentials, Topology: model.GatewayTopology{TrustedProxies: 2}.Stated(),
			},
		}},
		{Proxy: scope.Proxy{Address: "127.5.0.5", Namespace: "default", Name: "b", Settings: scope.Settings{
			HTTPProxyPort: 15080,
			Agent:         true,
			IstioFilters:  true,
			Stack:         model.BothStacks,
		}}},
		{Account: "x", Proxy: scope.Proxy{Address: "127.5.0.6",
			Type:      scope.Router,
			Namespace: "shop",
			Name:      "c",
			Labels:    ofGateway,
			Settings: scope.Settings{
				HTTP10:       true,
				Agent:        true,
				Metrics:      true,
				Credentials:  scope.AllCredentials,
				FiltersApart: true,
			},
		}},
		{Account: "a-istio", Proxy: scope.Proxy{Address: "127.5.0.20", // deployed for a Gateway, if its Pod is
			Type:      scope.Router,
			Namespace: "shop",
			Name:      "a",
			Settings:  scope.Settings{Credentials: scope.OwnGatewayCredentials},
		}},
		{Proxy: scope.Proxy{Address: "127.5.0.7", Namespace: "default", Name: "c"}},
		{Stated: statedByPods, Proxy: scope.Proxy{Address: "127.5.0.31", Namespace: "default", Name: "c"}},
		{Stated: statedByPods, Proxy: scope.Proxy{
			Address: "127.5.0.32", Namespace: "default", Name: "b", Settings: scope.Settings{Intercepted: true},
		}},
		{Proxy: scope.Proxy{Address: "127.5.0.8",
			Type:      scope.Router,
			Namespace: "default",
			Name:      "none",
			Settings:  scope.Settings{HTTPProxyPort: 15080, AllClusters: true},
		}},
		{Proxy: scope.Proxy{Address: "127.5.0.33",
			Type:      scope.Router,
			Namespace: "shop",
			Name:      "a",
			Labels:    labels,
			Settings:  scope.Settings{OwnGateways: true},
		}},
		{Account: "x", Proxy: scope.Proxy{Address: "127.5.0.10",
			Namespace: "default",
			Name:      "a",
			Labels:    labels,
			Settings: scope.Settings{
				Intercepted: true, Agent: true, Credentials: scope.AllCredentials, FiltersApart: true, DynamicDNS: true,
			},
			Stating: scope.Stating{Version: "1.30.2", Metadata: nodeMetadata{"TIER": "a"}},
		}},
		{Proxy: scope.Proxy{Address: "127.5.0.11", Namespace: "shop", Name: "b", Settings: scope.Settings{
			Intercepted:   true,
			HTTPProxyPort: 9080,
			Stack:         model.DualStack,
		}, Stating: scope.Stating{Version: "1.29.0"}}},
		{Proxy: scope.Proxy{Address: "127.5.0.34", Namespace: "shop", Name: "b", Settings: scope.Settings{
			Intercepted:   true,
			HTTPProxyPort: 9080,
			Stack:         model.DualStack,
			DynamicDNS:    true, // the same but for this
		}}},
		{Proxy: scope.Proxy{Address: "127.5.0.12", Namespace: "istio-system", Name: "none", Settings: scope.Settings{
			Intercepted:   true,
			HTTP10:        true,
			RemoteAddress: true,
			Metrics:       true,
			Stack:         model.IPv6Stack,
		}}},
		{Proxy: scope.Proxy{Address: "127.5.0.15",
			Namespace: "default",
			Name:      "a",
			Labels:    labels,
			Settings:  scope.Settings{Intercepted: true, DNSCapture: true},
		}},
		{Proxy: scope.Proxy{Address: "127.5.0.16", Namespace: "shop", Name: "b", Settings: scope.Settings{
			Intercepted: true,
			Transparent: true,
			DNSCapture:  true,
		}}},
		{Proxy: scope.Proxy{Address: "127.5.0.17", Namespace: "shop", Name: "none", Settings: scope.Settings{
			Intercepted: true,
			DNSCapture:  true,
			Stack:       model.DualStack,
		}}},
		{Proxy: scope.Proxy{Address: "127.5.0.18", Namespace: "shop", Name: "b", Settings: scope.Settings{
			HTTPProxyPort: 15080,
			DNSCapture:    true,
		}}},
		{Proxy: scope.Proxy{Address: "127.5.0.9", Namespace: "default", Name: "none", Place: &scope.Place{
			Locality: model.Locality{Region: "r2"},
		}, Settings: scope.Settings{HTTPProxyPort: 15080, HTTP10: true}}},
	}
}

// statedByPods is canonical, as the control plane makes it.
var statedByPods = &model.Stated{
	Connections: &model.ConnectionSettings{Edge: true, MaxStreams: 9},
	Headers:     &model.ProxyHeaders{NoAttemptCount: true, KeepsCase: true, NoRequestID: true},
	Tracing:     model.StatedTracing{Sampling: 7},
}
