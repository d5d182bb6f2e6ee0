package state

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// backendMesh is a Gateway with a route to the Service s, which has the ports http and other.
func backendMesh() []Update {
	all := attachedMesh(1)
	svc := all[1].Objects[0].(*model.Service)
	svc.Ports = append(svc.Ports, model.ServicePort{Name: "other", Port: 81})
	return all
}

func policyFor(name, section string, created int64, bundles ...string) Update {
	m := model.Meta{Kind: kinds.BackendTLSPolicy, Namespace: "a", Name: name, Created: created}
	return Update{Key: m.Key(), Objects: []model.Object{&model.BackendTLSPolicy{
		Meta: m, TLS: model.ClientTLS{Mode: model.Simple, SNI: name}, Bundles: bundles,
		Accepted: model.Condition{Status: true, Reason: "Accepted"}, ResolvedRefs: model.Condition{Status: true},
		Targets: []model.BackendTarget{{Service: "s", Host: "s.a.svc.cluster.local", Section: section}},
	}}}
}

func bundleOf(name, certificates, broken string) Update {
	m := model.Meta{Kind: kinds.ConfigMap, Namespace: "a", Name: name}
	return Update{Key: m.Key(), Objects: []model.Object{
		&model.CertificateBundle{Meta: m, Certificates: certificates, Broken: broken},
	}}
}

// Each way in which a policy is not in force has its reason in the status, and never opens a
// Service to plaintext.
func TestBackendTLSPoliciesHaveTheReasonsOfTheSpecification(t *testing.T) {
	w := NewWriter()
	w.Apply(backendMesh())
	reasons := func(policy string) []string {
		t.Helper()
		status := w.Snapshot().GatewayAPIStatus(kinds.BackendTLSPolicy, "a", policy)
		require.NotNil(t, status)
		require.Len(t, status.Parents, 1)
		return []string{
			status.Parents[0].Ref.Kind, status.Parents[0].Accepted.Reason, status.Parents[0].ResolvedRefs.Reason,
		}
	}
	policy := func() *model.TrafficPolicy { return w.Snapshot().BackendPolicy("s.a.svc.cluster.local").Policy }

	w.Apply([]Update{policyFor("p", "", 5)})
	require.Equal(t, []string{"Gateway", "Accepted", ""}, reasons("p"))
	require.Equal(t, "p", policy().TLS.SNI)

	w.Apply([]Update{policyFor("older", "", 1)})
	require.Equal(t, []string{"Gateway", "Conflicted", ""}, reasons("p"))
	require.Equal(t, "older", policy().TLS.SNI)
	w.Apply([]Update{policyFor("older", "other", 1)})
	require.Equal(t, []string{"Gateway", "Accepted", ""}, reasons("p"))
	require.Equal(t, "older", policy().Ports[0].Policy.TLS.SNI)
	require.Equal(t, uint16(81), policy().Ports[0].Port)
	w.Apply([]Update{policyFor("older", "none", 1)})
	require.Equal(t, []string{"Gateway", "TargetNotFound", ""}, reasons("older"))
	require.Empty(t, policy().Ports)

	w.Apply([]Update{policyFor("p", "", 5, "ca")})
	require.Equal(t, []string{"Gateway", "NoValidCACertificate", "InvalidCACertificateRef"}, reasons("p"))
	require.Equal(t, model.Unusable, policy().TLS.Mode)
	w.Apply([]Update{bundleOf("ca", "", "holds no certificate")})
	require.Equal(t, []string{"Gateway", "NoValidCACertificate", "InvalidCACertificateRef"}, reasons("p"))
	require.Equal(t, model.Unusable, policy().TLS.Mode)
	w.Apply([]Update{bundleOf("ca", "one", "")})
	require.Equal(t, []string{"Gateway", "Accepted", ""}, reasons("p"))
	require.Equal(t, "one\n", policy().TLS.Authorities)
	w.Apply([]Update{policyFor("p", "", 5, "ca", "missing")})
	require.Equal(t, []string{"Gateway", "Accepted", "InvalidCACertificateRef"}, reasons("p"))
	require.Equal(t, "one\n", policy().TLS.Authorities)

	w.Apply([]Update{{Key: attachedTo(0, 80).Key}}) // no Gateway leads to the Service
	require.Equal(t, []string{"Service", "Accepted", "InvalidCACertificateRef"}, reasons("p"))
	w.Apply([]Update{{Key: policyFor("p", "", 5).Key}, {Key: policyFor("older", "", 1).Key}})
	require.Nil(t, w.Snapshot().BackendPolicy("s.a.svc.cluster.local"))
	require.Nil(t, w.Snapshot().GatewayAPIStatus(kinds.BackendTLSPolicy, "a", "p"))
}

// One route among 5,000 to a Service that a policy is for costs what one costs, and writes no
// status but its own.
func TestRoutesToASecuredServiceCostWhatOneCosts(t *testing.T) {
	lookups := func(routes int) uint64 {
		w := NewCountingWriter()
		w.Apply(append(attachedMesh(routes), policyFor("p", "", 1)))
		before := w.Snapshot().Lookups()
		_, d := w.Apply([]Update{attachedTo(7, 81)})
		require.Empty(t, d.BackendPolicies)
		require.Len(t, d.GatewayAPIStatuses, 1)
		return w.Snapshot().Lookups() - before
	}
	few, many := lookups(10), lookups(5000)
	require.Less(t, many, few+100, "deeper trees alone may make a difference")
}
