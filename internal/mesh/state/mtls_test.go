package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

func peerAuthentication(namespace, name string, p model.PeerAuthentication) Update {
	p.Meta = model.Meta{Kind: kinds.PeerAuthentication, Namespace: namespace, Name: name}
	return Update{Key: p.Key(), Objects: []model.Object{&p}}
}

// A PeerAuthentication changes the endpoints of the workloads that it selects, and only by DISABLE.
func TestPoliciesChangeTheEndpointsThatTheySelect(t *testing.T) {
	labels := func(app string) map[string]string {
		return map[string]string{"app": app, model.TLSModeLabel: model.TLSModeIstio}
	}
	appA := model.LabelsOf(map[string]string{"app": "a"})
	w := NewCountingWriter()
	w.Apply([]Update{
		kubeService("default", "a"), pod("p", labels("a")), pod("q", labels("b")), pod("bare", nil),
		endpointSlice("s",
			model.SliceHost{Address: "127.0.0.1", Pod: "p"}, model.SliceHost{Address: "127.0.0.2", Pod: "q"},
			model.SliceHost{Address: "127.0.0.3", Pod: "bare"},
		),
	})
	inTLS := func() (in []string) {
		for set := range w.Snapshot().endpoints.under(nil) {
			for _, e := range set.All() {
				if e.TLS {
					in = append(in, e.Address)
				}
			}
		}
		return in
	}
	const ofP, ofQ = "127.0.0.1", "127.0.0.2"
	for _, step := range []struct {
		what    string
		update  Update
		inTLS   []string
		changed int
	}{
		{
			"STRICT",
			peerAuthentication("default", "all", model.PeerAuthentication{Mode: model.MTLSStrict}),
			[]string{ofP, ofQ}, 0,
		},
		{
			"DISABLE for another port",
			peerAuthentication("default", "own", model.PeerAuthentication{
				Selector: appA, Ports: []model.PortMTLS{{Port: 1, Mode: model.MTLSDisable}},
			}),
			[]string{ofP, ofQ}, 0,
		},
		{
			"DISABLE for a workload",
			peerAuthentication("default", "own", model.PeerAuthentication{Selector: appA, Mode: model.MTLSDisable}),
			[]string{ofQ}, 1,
		},
		{
			"DISABLE for all others",
			peerAuthentication("default", "all", model.PeerAuthentication{Mode: model.MTLSDisable}),
			nil, 1,
		},
		{
			"PERMISSIVE for the workload",
			peerAuthentication("default", "own", model.PeerAuthentication{Selector: appA, Mode: model.MTLSPermissive}),
			[]string{ofP}, 1,
		},
		{
			"DISABLE in the root namespace",
			peerAuthentication("istio-system", "all", model.PeerAuthentication{Mode: model.MTLSDisable}),
			[]string{ofP}, 0,
		},
		{
			"none for all others",
			gone(peerAuthentication("default", "all", model.PeerAuthentication{})),
			[]string{ofP}, 0,
		},
		{
			"none in the root namespace",
			gone(peerAuthentication("istio-system", "all", model.PeerAuthentication{})),
			[]string{ofP, ofQ}, 1,
		},
	} {
		_, d := w.Apply([]Update{step.update})
		var changed int
		for _, e := range d.Endpoints {
			changed += len(e.IDs)
		}
		require.Equal(t, step.inTLS, inTLS(), step.what)
		require.Equal(t, step.changed, changed, step.what)
	}
}

// A policy costs the same whatever workloads there are, as long as none says DISABLE.
func TestPoliciesThatDisableNothingLookAtNoWorkload(t *testing.T) {
	lookups := func(pods int) uint64 {
		w := NewCountingWriter()
		var updates []Update
		for i := range pods {
			labels := map[string]string{model.TLSModeLabel: model.TLSModeIstio}
			updates = append(updates, pod(string(rune('a'+i)), labels))
		}
		w.Apply(updates)
		before := w.Snapshot().Lookups()
		w.Apply([]Update{peerAuthentication("default", "all", model.PeerAuthentication{Mode: model.MTLSStrict})})
		return w.Snapshot().Lookups() - before
	}
	require.Equal(t, lookups(2), lookups(20))
}
