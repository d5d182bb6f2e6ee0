package state

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Certificate is the pair that the workloads of a namespace have under the name of a credential. It is nil unless it is Good.
func (w *Snapshot) Certificate(namespace, credential string) (*model.KeyPair, model.Holding) {
	c := w.Credential(namespace, credential)
	holds := c.HoldsPair()
	if holds != model.Good {
		return nil, holds
	}
	return c.Pair, holds
}

// Authorities are those that go with a credential: of the Secret that is for them alone, or of its own. They are nil unless Good.
func (w *Snapshot) Authorities(namespace, credential string) (*model.Authorities, model.Holding) {
	c := w.Credential(namespace, model.AuthoritiesOf(credential))
	if c == nil {
		c = w.Credential(namespace, credential)
	}
	holds := c.HoldsAuthorities()
	if holds != model.Good {
		return nil, holds
	}
	return c.Authorities, holds
}

// LackOf is what a server of a Gateway lacks in the namespace of a workload: of several Secrets the first.
func (w *Snapshot) LackOf(g *model.Gateway, server int, namespace string) (source.Problem, bool) {
	t := g.Servers[server].TLS
	if t == nil {
		return source.Problem{}, false
	}
	for _, name := range t.Credentials {
		if _, holds := w.Certificate(namespace, name); holds != model.Good {
			return lack{g, server, name, namespace, "a certificate and its key"}.problem(holds), true
		}
	}
	if t.CACredential != "" {
		if _, holds := w.Authorities(namespace, t.CACredential); holds != model.Good {
			return lack{g, server, t.CACredential, namespace, "authorities"}.problem(holds), true
		}
	}
	return source.Problem{}, false
}

// lack is a Secret that is not as it should be.
type lack struct {
	gateway                    *model.Gateway
	server                     int
	name, namespace, ofContent string
}

func (k lack) problem(holds model.Holding) source.Problem {
	p := source.Problem{
		Severity: source.Error, Path: fmt.Sprintf("spec.servers[%d].tls", k.server), Value: k.name,
		Message: fmt.Sprintf("there is no Secret of this name with %s in namespace %s, that of the gateway's workload; the server stays closed", k.ofContent, k.namespace),
		Want:    model.WantCredential,
	}
	if k.gateway.Owner != "" {
		p.Path = "spec.tls" // of an Ingress
	}
	if holds == model.Bad {
		p.Message = fmt.Sprintf("the Secret of this name in namespace %s, that of the gateway's workload, cannot be used; proxies keep what it held before, and the server stays closed on those that have none", k.namespace)
	}
	return p
}
