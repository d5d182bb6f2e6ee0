package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// MayReadSecrets reports whether a service account may read the Secrets of its namespace. The error
// says why nobody can tell now.
type MayReadSecrets func(ctx context.Context, namespace, serviceAccount string) (bool, error)

// recheckInterval is how often the rights of connected gateways are looked at again: how long a
// proxy may keep a right that was taken away, or wait for one that was given.
const recheckInterval = time.Minute

// secretAccess decides which proxies may have Secrets, and remembers what it decided about those
// that are connected. What a proxy says of itself counts for nothing.
type secretAccess struct {
	ask      MayReadSecrets // nil: there are no rights, as in a local mesh
	snapshot func() *state.Snapshot
	// end ends the streams of gateways that run as a service account, so that they connect anew
	// with other rights.
	end func(namespace, serviceAccount string)
	log *slog.Logger

	mu    sync.Mutex
	conns map[*fanout.Conn]secretRight
}

// secretRight is what a connected gateway proved to be, and whether that may read Secrets. It is
// zero for other proxies.
type secretRight struct {
	namespace, serviceAccount string
	may                       bool
}

func newSecretAccess(ask MayReadSecrets, log *slog.Logger) *secretAccess {
	return &secretAccess{
		ask: ask, log: log, snapshot: func() *state.Snapshot { return nil },
		end: func(string, string) {}, conns: map[*fanout.Conn]secretRight{},
	}
}

// of sets in the facts of a new proxy which Secrets it may have, as far as its identity and its
// rights go. A gateway without rights may have those that its own Gateway names: that is for the
// compiler to see, as it changes with the mesh. It may block.
func (a *secretAccess) of(ctx context.Context, facts *compile.Facts, id serve.Identity) (secretRight, error) {
	if facts.Proxy.Type != scope.Router {
		if id.Pod != "" {
			facts.Proxy.Settings.Credentials = scope.AllCredentials
		}
		return secretRight{}, nil
	}
	if id.Pod == "" {
		return secretRight{}, nil
	}
	right := secretRight{namespace: id.Namespace, serviceAccount: id.ServiceAccount, may: true}
	if a.ask != nil {
		var err error
		if right.may, err = a.ask(ctx, id.Namespace, id.ServiceAccount); err != nil {
			return secretRight{}, err
		}
	}
	facts.Proxy.Settings.Credentials = scope.OwnGatewayCredentials
	if right.may {
		facts.Proxy.Settings.Credentials = scope.AllCredentials
	}
	return right, nil
}

// report logs why a gateway may not have Secrets.
func (a *secretAccess) report(facts compile.Facts, id serve.Identity, right secretRight) {
	if facts.Proxy.Type != scope.Router {
		return
	}
	if why := a.lacks(facts, id, right); why != "" {
		a.log.Info("gateway may not have Secrets", "proxy", facts.Proxy.Name+"."+facts.Proxy.Namespace,
			"reason", why)
	}
}

// lacks says why a gateway may not have Secrets; it is empty if it may.
func (a *secretAccess) lacks(facts compile.Facts, id serve.Identity, right secretRight) string {
	switch {
	case id == (serve.Identity{}):
		return "it came without a token"
	case id.Pod == "":
		return "its token is not bound to a Pod"
	}
	mayNot := ""
	if !right.may {
		mayNot = "service account " + id.ServiceAccount + " may not list secrets in namespace " + id.Namespace
	}
	snap := a.snapshot()
	if snap == nil {
		return mayNot
	}
	pod := snap.Workload(facts.Proxy.Namespace, facts.Proxy.Name)
	if why := compile.NoCredentials(facts, pod); why != "" || right.may {
		return why
	}
	if why := compile.NotDeployed(snap, facts, pod); why != "" {
		return mayNot + ", and " + why
	}
	return ""
}

func (a *secretAccess) connected(c *fanout.Conn, right secretRight) {
	if right == (secretRight{}) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[c] = right
}

func (a *secretAccess) disconnected(c *fanout.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, c)
}

// run looks at the rights of connected gateways again and again, until ctx ends.
func (a *secretAccess) run(ctx context.Context) {
	if a.ask == nil {
		return
	}
	tick := time.NewTicker(recheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.recheck(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// recheck ends the streams of gateways whose right has changed. Where nobody can tell, proxies keep
// what they have.
func (a *secretAccess) recheck(ctx context.Context) {
	for _, right := range a.rights() {
		may, err := a.ask(ctx, right.namespace, right.serviceAccount)
		switch {
		case err != nil:
			a.log.Warn("the rights of connected gateways stay as they are", "error", err)
			return
		case may != right.may:
			a.end(right.namespace, right.serviceAccount)
		}
	}
}

// rights returns those of the connected gateways, each once.
func (a *secretAccess) rights() []secretRight {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []secretRight
	seen := map[secretRight]bool{}
	for _, right := range a.conns {
		if !seen[right] {
			seen[right] = true
			all = append(all, right)
		}
	}
	return all
}
