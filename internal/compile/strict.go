package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
)

// reportStrict reports PeerAuthentications that refuse all calls to the class's workloads: they
// demand mutual TLS of proxies without a certificate.
func reportStrict(s *scope.Scope, ports []inbound, report func(source.Problem)) {
	if s.TakesMeshTLS() {
		return
	}
	reported := map[*model.PeerAuthentication]bool{}
	for _, in := range ports {
		if s.MTLSMode(in.port) != model.MTLSStrict {
			continue
		}
		if policy := s.MTLSPolicy(in.port); !reported[policy] {
			reported[policy] = true
			report(strictWithoutAgent(policy, in.port))
		}
	}
}

// strictWithoutAgent does not name the class, since classes of other namespaces that start from it
// take the problem over.
func strictWithoutAgent(policy *model.PeerAuthentication, port uint16) source.Problem {
	path := "spec.mtls.mode"
	for _, p := range policy.Ports {
		if p.Port == port && p.Mode == model.MTLSStrict {
			path = "spec.portLevelMtls[\"" + portText(port) + "\"].mode"
		}
	}
	return problemOf(&policy.Meta, source.Problem{
		Severity: source.Error, Path: path, Value: "STRICT",
		Message: "some workloads that it is for have no agent that serves their proxy a certificate of the mesh (" +
			noAgent + "); all calls to them are refused",
		Want: "workloads whose proxies have an agent, or PERMISSIVE",
	})
}
