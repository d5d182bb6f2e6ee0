package local

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/local/agents"
)

// ackLag is how long a pod still serves after all proxies have acknowledged the configuration
// without it. Envoy acknowledges on its main thread, a moment before its worker threads use the
// configuration.
const ackLag = 200 * time.Millisecond

// worker runs the processes of one pod from start to end. It owns no state of the loop; it reports.
type worker struct {
	uid     types.UID
	apps    []processSpec
	envoy   *processSpec  // nil: no sidecar
	admin   *admin        // nil: no sidecar
	agent   *agents.Agent // nil: Envoy has no certificate
	listens func(port int32) check
	opts    Options
	// settle returns once every proxy knows what was delivered. Nil: nobody can tell.
	settle               func(context.Context) error
	settleTimeout, drain time.Duration
	spawner              *spawner
	logs                 string // directory
	send                 func(report)

	// ports is latest-value: the ports to watch. A newer list replaces one that was not taken yet.
	ports chan []int32
	// terminate has the one order to end the pod; the value says whether others may still call it.
	terminate chan bool
}

// run returns when all processes of the pod have ended: at once when the context ends, in order
// after a termination.
func (w *worker) run(ctx context.Context) {
	appsCtx, stopApps := context.WithCancel(ctx)
	defer stopApps()
	envoyCtx, stopEnvoy := context.WithCancel(ctx)
	defer stopEnvoy()
	agentCtx, stopAgent := context.WithCancel(context.WithoutCancel(ctx))
	var apps, envoy, agent sync.WaitGroup
	defer func() { stopAgent(); agent.Wait() }()
	if w.agent != nil {
		agent.Go(func() { _ = w.agent.Run(agentCtx) })
	}
	for _, l := range w.apps {
		apps.Go(func() { w.supervise(appsCtx, l) })
	}
	if w.envoy != nil {
		envoy.Go(func() { w.supervise(envoyCtx, *w.envoy) })
		apps.Go(func() { w.watchPorts(appsCtx) })
	}
	select {
	case <-ctx.Done():
	case served := <-w.terminate:
		if served {
			w.shutDown(ctx)
		}
	}
	stopApps()
	apps.Wait() // the app's last calls still go through its Envoy
	w.flush(ctx)
	stopEnvoy()
	envoy.Wait()
	w.tell("", report{kind: podEnded})
}

func (w *worker) tell(container string, r report) {
	r.pod, r.container = w.uid, container
	w.send(r)
}

// bootstrapFile is Envoy's configuration in the pod's directory.
const bootstrapFile = "envoy.json"

func (w *worker) logPath(container string) string { return filepath.Join(w.logs, container+".log") }

// removeBootstrap deletes the file with the pod's token. The logs stay until the next run.
func (w *worker) removeBootstrap() { _ = os.Remove(filepath.Join(w.logs, bootstrapFile)) }

func (w *worker) supervise(ctx context.Context, l processSpec) {
	s := supervisor{
		spec: l, log: w.logPath(l.container), last: tail, spawner: w.spawner,
		backoff: w.opts.Backoff, maxBackoff: w.opts.MaxBackoff,
		tell: func(r report) { w.tell(l.container, r) },
	}
	s.run(ctx)
}

// shutDown lets the pod serve until nobody calls it any more. It waits until every proxy knows that
// the pod leaves. Then its Envoy asks the remaining clients to disconnect, and finishes what is in
// flight.
func (w *worker) shutDown(ctx context.Context) {
	leaving, cancel := context.WithTimeout(ctx, w.settleTimeout)
	defer cancel()
	if w.settle == nil {
		<-leaving.Done()
	} else if w.settle(leaving) == nil {
		sleep(leaving, ackLag)
	}
	if w.admin == nil || ctx.Err() != nil {
		return
	}
	draining, cancel := context.WithTimeout(ctx, w.drain)
	defer cancel()
	w.admin.failHealthCheck(draining)
	w.admin.awaitIdle(draining)
}

// flush waits until the pod's Envoy has passed on what its processes sent last. They have ended, so
// every connection ends by itself.
func (w *worker) flush(ctx context.Context) {
	if w.admin == nil || ctx.Err() != nil {
		return
	}
	flushing, cancel := context.WithTimeout(ctx, w.drain)
	defer cancel()
	w.admin.awaitIdle(flushing)
}

// watchPorts reports each wanted port once the pod's Envoy listens there, so that no endpoint is
// announced before. It keeps no state of them: the loop knows when an Envoy has ended, and wants
// its ports again.
func (w *worker) watchPorts(ctx context.Context) {
	var wanted []int32
	t := time.NewTicker(fastPeriod)
	defer t.Stop()
	for {
		tick := t.C
		if len(wanted) == 0 {
			tick = nil
		}
		select {
		case <-ctx.Done():
			return
		case wanted = <-w.ports:
		case <-tick:
		}
		var missing []int32
		for _, port := range wanted {
			if w.listening(ctx, port) {
				w.tell("", report{kind: portOpen, port: port})
				continue
			}
			missing = append(missing, port)
		}
		wanted = missing
	}
}

func (w *worker) listening(ctx context.Context, port int32) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return w.listens(port)(ctx) == nil
}

// want replaces the ports to watch.
func (w *worker) want(ports []int32) {
	for {
		select {
		case w.ports <- ports:
			return
		default:
		}
		select {
		case <-w.ports:
		default:
		}
	}
}
