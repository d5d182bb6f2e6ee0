package state

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Certificate returns the key pair that workloads of a namespace have for a credential, nil unless
// it is Good.
func (s *Snapshot) Certificate(namespace, credential string) (*model.KeyPair, model.Holding) {
	c := s.Credential(namespace, credential)
	holds := c.HoldsPair()
	if holds != model.Good {
		return nil, holds
	}
	return c.Pair, holds
}

// Authorities returns the CA certificates of a credential, nil unless they are Good. They come from
// the Secret for authorities alone if there is one, else from the credential's own Secret.
func (s *Snapshot) Authorities(namespace, credential string) (*model.Authorities, model.Holding) {
	c := s.Credential(namespace, model.AuthoritiesOf(credential))
	if c == nil {
		c = s.Credential(namespace, credential)
	}
	holds := c.HoldsAuthorities()
	if holds != model.Good {
		return nil, holds
	}
	return c.Authorities, holds
}

// SecretProblem returns the first problem with the Secrets that a server of a Gateway names, in the
// namespace of a workload.
func (s *Snapshot) SecretProblem(g *model.Gateway, server int, namespace string) (source.Problem, bool) {
	t := g.Servers[server].TLS
	if t == nil {
		return source.Problem{}, false
	}
	lacks := secretProblem{gateway: g, server: server, namespace: namespace, root: s.Mesh.RootNamespace}
	for _, name := range t.Credentials {
		if _, holds := s.Certificate(namespace, name); holds != model.Good {
			lacks.name, lacks.content = name, "a certificate and its key"
			return lacks.problem(holds), true
		}
	}
	if t.CACredential != "" {
		if _, holds := s.Authorities(namespace, t.CACredential); holds != model.Good {
			lacks.name, lacks.content = t.CACredential, "authorities"
			return lacks.problem(holds), true
		}
	}
	return source.Problem{}, false
}

// secretProblem is a Secret that is missing or bad.
type secretProblem struct {
	gateway                  *model.Gateway
	server                   int
	name, namespace, content string
	root                     string // the root namespace
}

func (k secretProblem) problem(holds model.Holding) source.Problem {
	p := source.Problem{
		Severity: source.Error, Path: k.gateway.ServerField(k.server, "tls"), Value: k.name,
		Message: fmt.Sprintf(
			"there is no Secret of this name with %s in namespace %s, that of the gateway's workload; "+
				"the server stays closed", k.content, k.namespace,
		),
		Want: model.WantCredential,
	}
	if k.namespace == k.root && kinds.IsReservedSecret(k.name) {
		p.Message = "this Secret is the control plane's own, which no proxy gets; the server stays closed"
		p.Want = "a Secret of the gateway's own"
		return p
	}
	if holds == model.Bad {
		p.Message = fmt.Sprintf(
			"the Secret of this name in namespace %s, that of the gateway's workload, cannot be used; "+
				"proxies keep what it held before, and the server stays closed on those that have none", k.namespace,
		)
	}
	return p
}
