package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestTelemetriesWithoutAReceiverAreReported: as the service of the receiver comes, changes its
// port and goes.
func TestTelemetriesWithoutAReceiverAreReported(t *testing.T) {
	c := newChecked()
	const host = "collector.observability.svc.cluster.local"
	m := meta(kinds.Telemetry, "default", "t")
	telemetry := func(port uint16) state.Update {
		tracer := &model.Tracer{Name: "spans", Host: host, Port: port}
		return update(&model.Telemetry{Meta: m, Tracing: []model.TracingRule{{Inherits: true}, {Tracer: tracer}}}, m)
	}
	service := func(port uint16, protocol model.Protocol) state.Update {
		s := meta(kinds.Service, "observability", "collector")
		return update(&model.Service{
			Meta: s, Host: host, Ports: []model.ServicePort{{Port: port, Protocol: protocol}},
		}, s)
	}
	said := func(problems []source.Problem) (messages []string) {
		for _, p := range problems {
			require.Equal(t, m.Key(), p.Object)
			require.Equal(t, source.Warning, p.Severity)
			require.Equal(t, "spec.tracing[1].providers[0].name", p.Path)
			require.Equal(t, "spans", p.Value)
			messages = append(messages, p.Message)
		}
		return messages
	}
	const none = "no Service or ServiceEntry has the host " + host + " that spans go to; calls are not traced"
	const noPort = host + " has no TCP port 4317; calls are not traced"
	require.Equal(t, []string{none}, said(c.apply(telemetry(4317))))
	require.Equal(t, []string{noPort}, said(c.apply(service(80, model.HTTP))))
	require.Equal(t, []string{noPort}, said(c.apply(service(4317, model.UDP))))
	require.Empty(t, said(c.apply(service(4317, model.HTTP2))))
	require.Len(t, said(c.apply(telemetry(4318))), 1)
	require.Empty(t, said(c.apply(telemetry(4317))))
	require.Equal(t, []string{none}, said(c.apply(gone(service(4317, model.HTTP2)))))
	require.Empty(t, said(c.apply(gone(telemetry(4317)))))
}

// TestAMeshWithoutAReceiverIsReported: a default provider of traces, or an address in
// defaultConfig, that no service takes spans at.
func TestAMeshWithoutAReceiverIsReported(t *testing.T) {
	c := newChecked()
	const host = "zipkin.istio-system.svc.cluster.local"
	service := meta(kinds.Service, "istio-system", "zipkin")
	receiver := func(port uint16, protocol model.Protocol) state.Update {
		return update(&model.Service{
			Meta: service, Host: host, Ports: []model.ServicePort{{Port: port, Protocol: protocol}},
		}, service)
	}
	configured := func(tracer *model.Tracer, legacy bool) state.Update {
		mesh := model.DefaultMesh()
		mesh.Tracing.Tracer, mesh.LegacyTracer = tracer, legacy
		return state.Update{Key: meshKey, Objects: []model.Object{&mesh}}
	}
	zipkin := &model.Tracer{Name: "spans", Kind: model.TraceZipkin, Host: host, Port: 9411}
	require.Empty(t, c.apply(configured(nil, false)))

	provider := c.apply(configured(zipkin, false))
	require.Len(t, provider, 1)
	require.Equal(t, meshKey, provider[0].Object)
	require.Equal(t, source.Warning, provider[0].Severity)
	require.Equal(t, "data.mesh.defaultProviders.tracing[0]", provider[0].Path)
	require.Equal(t, "spans", provider[0].Value)
	require.Contains(t, provider[0].Message, "no Service or ServiceEntry has the host "+host)
	require.Contains(t, provider[0].Want, "extensionProviders")

	legacy := c.apply(configured(zipkin, true))
	require.Len(t, legacy, 1)
	require.Equal(t, "data.mesh.defaultConfig.tracing.zipkin.address", legacy[0].Path)
	require.Equal(t, host+":9411", legacy[0].Value)
	require.Contains(t, legacy[0].Want, "defaultConfig.tracing.zipkin.address")

	require.Empty(t, c.apply(receiver(9411, model.HTTP)))
	wrong := c.apply(receiver(9411, model.UDP))
	require.Len(t, wrong, 1)
	require.Contains(t, wrong[0].Message, host+" has no TCP port 9411")
	require.Len(t, c.apply(gone(receiver(9411, model.HTTP))), 1)
	require.Empty(t, c.apply(state.Update{Key: meshKey}), "without the configuration nothing is traced")
}
