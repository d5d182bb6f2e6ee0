package local

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/lateen-mesh/lateen/internal/local/agents"
)

// Options is what a Runtime needs from its caller. Zero durations take the defaults stated.
type Options struct {
	// Envoy is the path of the Envoy binary. Like all paths here it may be relative to the caller's
	// working directory.
	Envoy string
	// Self is the path of the running lateen binary; containers of the image lateen/sample run
	// "Self sample ARGS".
	Self string
	// StateDir is the directory of bootstraps and logs. A second runtime on the same directory is
	// refused.
	StateDir string
	// WorkDir is the working directory of containers that name none; relative ones start from it.
	WorkDir string
	// Environ is the caller's environment; containers inherit only what every local program needs
	// of it (PATH, HOME, …).
	Environ []string
	// XDS is the control plane's plaintext xDS address, which each Envoy connects to with its
	// token.
	XDS netip.AddrPort
	// IstioVersion is the ISTIO_VERSION in the node metadata of proxies.
	IstioVersion string
	// Tokens has each pod's token while the pod lives. Nil: proxies get tokens that nobody can
	// verify.
	Tokens *Tokens
	// Agents give each pod's Envoy a certificate of the mesh. Nil: the mesh is in plaintext.
	Agents *agents.Authority
	// Metrics has proxies keep Istio's standard metrics, for somebody who reads the form that Envoy
	// has them in (xds/proxystats).
	Metrics bool
	// Notify is called with one-line events. The loop calls it, so it must not block. Nil: nobody
	// is told.
	Notify func(Notice)
	// Settled returns once every connected proxy has accepted configuration that covers all that
	// the runtime has delivered so far, and names those proxies ("pod.namespace"). Nil: a
	// terminating pod serves for SettleTimeout, whatever proxies know.
	Settled func(ctx context.Context) (proxies []string, err error)
	// ControlPlane is run beside the pods and restarted when it ends; nil if the control plane is
	// not a process of its own.
	ControlPlane *ControlPlaneProcess

	// FreePorts opens load balancers at free ports instead of their Services' ports, for a runtime
	// beside another.
	FreePorts bool

	// SettleTimeout limits how long a terminating pod waits until every proxy knows that it leaves:
	// 30 s, within which a control plane that died is back. terminationGracePeriodSeconds limits it
	// too.
	SettleTimeout time.Duration
	// ListenerDrain is how long an Envoy's replaced or removed listener serves its connections, in
	// whole seconds: 5 s.
	ListenerDrain time.Duration
	// Drain limits how long a terminating pod then finishes its requests and connections: 5 s.
	Drain time.Duration
	// Grace caps terminationGracePeriodSeconds, the time from SIGTERM to SIGKILL: 5 s.
	Grace time.Duration
	// CoolDown is how long an ended pod's addresses stay unused, so that no stale endpoint reaches
	// another pod: 30 s.
	CoolDown time.Duration
	// Backoff is the pause before a crashed process is started again; it doubles up to MaxBackoff:
	// 500 ms, 30 s.
	Backoff, MaxBackoff time.Duration
	// ListenWait is how long the endpoint of a ready pod is withheld until its Envoy listens at the
	// service's port: 10 s.
	ListenWait time.Duration
}

func (o Options) withDefaults() Options {
	orElse := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	orElse(&o.SettleTimeout, 30*time.Second)
	orElse(&o.ListenerDrain, ListenerDrain)
	orElse(&o.Drain, 5*time.Second)
	orElse(&o.Grace, 5*time.Second)
	orElse(&o.CoolDown, 30*time.Second)
	orElse(&o.Backoff, 500*time.Millisecond)
	orElse(&o.MaxBackoff, 30*time.Second)
	orElse(&o.ListenWait, 10*time.Second)
	if o.Tokens == nil {
		o.Tokens = NewTokens()
	}
	if o.Notify == nil {
		o.Notify = func(Notice) {}
	}
	return o
}

// absolute resolves paths now: processes run in directories of their own.
func (o Options) absolute() (Options, error) {
	for _, path := range []*string{&o.Envoy, &o.Self, &o.StateDir, &o.WorkDir} {
		a, err := filepath.Abs(*path)
		if err != nil {
			return o, fmt.Errorf("local: %w", err)
		}
		*path = a
	}
	return o, nil
}

func (o Options) validate() error {
	switch {
	case o.Envoy == "":
		return errors.New("local: Options.Envoy is empty, want the path of an Envoy binary")
	case o.Self == "":
		return errors.New("local: Options.Self is empty, want the path of the lateen binary")
	case o.StateDir == "":
		return errors.New("local: Options.StateDir is empty, want a directory for logs and bootstraps")
	case !o.XDS.IsValid():
		return errors.New("local: Options.XDS is not set, want the control plane's address")
	}
	return nil
}
