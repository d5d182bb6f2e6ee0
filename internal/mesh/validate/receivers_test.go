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
