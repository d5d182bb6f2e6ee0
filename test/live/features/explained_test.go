package features

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/mesh/policy"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/testkit/policytable"
	"github.com/lateen-mesh/lateen/internal/translate/evaluate"
)

// explainer says by what the Envoys of the table's servers hold how they decide about calls, as
// `lateen authz check --proxy` does.
type explainer struct {
	t       *testing.T
	m       *livemesh.Mesh
	configs map[string]evaluate.Config // by server
}

func newExplainer(t *testing.T, m *livemesh.Mesh) *explainer {
	t.Helper()
	e := &explainer{t, m, map[string]evaluate.Config{}}
	for _, server := range []string{policytable.Allows, policytable.Denies} {
		e.configs[server] = heldBy(t, m, server+"-v1")
	}
	return e
}

// heldBy is the part of what an Envoy holds that calls to its workload meet.
func heldBy(t *testing.T, m *livemesh.Mesh, workload string) evaluate.Config {
	t.Helper()
	config := evaluate.Config{Extensions: map[string]*anypb.Any{}}
	for _, raw := range dumped(t, m, workload, "dynamic_listeners") {
		held, l := &adminv3.ListenersConfigDump_DynamicListener{}, &listenerv3.Listener{}
		require.NoError(t, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, held))
		require.NoError(t, held.GetActiveState().GetListener().UnmarshalTo(l))
		config.Listeners = append(config.Listeners, l)
	}
	for _, raw := range dumped(t, m, workload, "ecds_filters") {
		held, f := &adminv3.EcdsConfigDump_EcdsFilterConfig{}, &corev3.TypedExtensionConfig{}
		require.NoError(t, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, held))
		require.NoError(t, held.GetEcdsFilter().UnmarshalTo(f))
		config.Extensions[f.GetName()] = proto.CloneOf(f.GetTypedConfig())
	}
	require.NotEmpty(t, config.Listeners)
	require.NotEmpty(t, config.Extensions)
	return config
}

func dumped(t *testing.T, m *livemesh.Mesh, workload, resource string) []json.RawMessage {
	t.Helper()
	var dump struct {
		Configs []json.RawMessage `json:"configs"`
	}
	require.NoError(t, json.Unmarshal([]byte(m.Admin(workload, "/config_dump?resource="+resource)), &dump))
	return dump.Configs
}

// request requires that a request fared as its server's configuration says, and explains that.
func (e *explainer) request(r policytable.Request, status int) string {
	e.t.Helper()
	call := e.call(r.Caller, r.Server, policytable.HTTPPort)
	call.Method, call.Headers = r.Method, r.Headers
	call.Path, _, _ = strings.Cut(r.Path, "?")
	if call.Host = r.Host; r.Host == "" {
		call.Host = r.Server + ".default"
	}
	if client := r.Headers["x-forwarded-for"]; client != "" {
		call.Remote = netip.MustParseAddr(client)
	}
	return e.decide(r.Server, call, status == http.StatusForbidden)
}

// connection is request for a connection.
func (e *explainer) connection(caller, server string, port int, answered bool) {
	e.t.Helper()
	call := e.call(caller, server, uint16(port))
	call.TCP = true
	e.decide(server, call, !answered)
}

func (e *explainer) call(caller, server string, port uint16) policy.Call {
	here := netip.MustParseAddr("127.0.0.1")
	call := policy.Call{Source: here, Remote: here, Destination: e.m.Pod(server + "-v1").Pod, Port: port}
	namespace, secure := map[string]string{policytable.Client: "default", policytable.Far: "other"}[caller]
	if secure {
		call.Identity = spiffe(namespace, "default")
		call.SNI = fmt.Sprintf("outbound_.80_._.%s.default.svc.cluster.local", server)
	}
	return call
}

func (e *explainer) decide(server string, call policy.Call, refused bool) string {
	e.t.Helper()
	report, err := e.configs[server].Decide(call)
	if !assert.NoError(e.t, err) {
		return ""
	}
	shown := fmt.Sprintf("%s; %v", report, report.Notes)
	assert.Equal(e.t, report.Outcome == policy.Denied, refused,
		"the proxy of %s decides otherwise than its configuration says about %+v: %s", server, call, shown)
	return shown
}
