package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/local/agents"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// retryAfter is the pause before the next attempt to start a pod, if the failure may be temporary.
const retryAfter = time.Second

// prepare gives addresses and processes to the pods that can start now, and returns them. It
// records why the others cannot.
func (l *loop) prepare(now time.Time) (starting []*pod) {
	for _, p := range l.sortedPods() {
		if p.started || p.terminating != nil {
			continue
		}
		if err := l.assignResources(p, now); err != nil {
			if p.blocked != err.Error() {
				p.blocked = err.Error()
				l.notify(Notice{Pod: p.name(), Bad: true, Text: "cannot start: " + p.blocked})
			}
			continue
		}
		p.blocked, p.started = "", true
		starting = append(starting, p)
	}
	return starting
}

// assignResources assigns addresses and a token to a pod and makes its worker. An error says what
// is missing.
func (l *loop) assignResources(p *pod, now time.Time) error {
	if _, problems := l.builder(p).processSpecs(); len(problems) > 0 {
		for _, f := range problems {
			if f.severity == source.Error {
				return fmt.Errorf("%s %q: %s", f.path, f.value, f.message)
			}
		}
	}
	addrs, err := l.addresses.take(p.name(), containerPorts(&p.object.Spec), now)
	if err != nil {
		l.wakeAt(now.Add(retryAfter))
		return err
	}
	p.assign(addrs)
	if l.opts.Agents != nil && p.role == roleSidecar && p.object.Labels[model.TLSModeLabel] == "" {
		setKey(&p.object.Labels, model.TLSModeLabel, model.TLSModeIstio)
	}
	p.token = l.opts.Tokens.issue(Identity{
		Namespace: p.object.Namespace, ServiceAccount: p.object.Spec.ServiceAccountName, Pod: p.object.Name,
	})
	if err := l.newWorker(p); err != nil {
		l.opts.Tokens.revoke(p.token)
		l.addresses.release(addrs, now)
		l.wakeAt(now.Add(retryAfter))
		return err
	}
	return nil
}

// newWorker writes the pod's files and makes its worker.
func (l *loop) newWorker(p *pod) error {
	dir := filepath.Join(l.opts.StateDir, "pods", p.object.Namespace, p.object.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("pod's directory: %w", err)
	}
	apps, _ := l.builder(p).processSpecs()
	w := &worker{
		uid: p.object.UID, apps: apps, opts: l.opts, spawner: l.spawner, logs: dir,
		settleTimeout: p.graceWithin(l.opts.SettleTimeout), drain: p.graceWithin(l.opts.Drain),
		ports: make(chan []int32, 1), terminate: make(chan bool, 1),
		listens: p.serves,
	}
	if l.opts.Settled != nil {
		w.settle = l.runtime.Settle
	}
	if p.role != roleBare {
		if err := l.newAgent(p, w); err != nil {
			return err
		}
		envoy, err := l.writeBootstrap(p, w.agent, dir)
		if err != nil {
			return errors.Join(err, w.agent.Close())
		}
		w.envoy, w.admin = &envoy, adminAt(p.addrs.Outbound)
	}
	p.worker, p.containers = w, nil
	for _, a := range apps {
		p.containers = append(p.containers, &container{name: a.container, reason: "starting"})
	}
	if w.envoy != nil {
		p.containers = append(p.containers, &container{name: proxyContainer, reason: "starting"})
	}
	return nil
}

// newAgent makes the agent of a pod's Envoy, if the mesh has certificates.
func (l *loop) newAgent(p *pod, w *worker) (err error) {
	if l.opts.Agents == nil {
		return nil
	}
	w.agent, err = l.opts.Agents.Agent(ca.Identity{
		TrustDomain: l.in.trustDomain(), Namespace: p.object.Namespace,
		ServiceAccount: p.object.Spec.ServiceAccountName, Pod: p.object.Name,
	}, p.token)
	return err
}

// writeBootstrap writes Envoy's bootstrap and returns its process. Only the owner may read the
// file: it has the pod's token.
func (l *loop) writeBootstrap(p *pod, agent *agents.Agent, dir string) (processSpec, error) {
	b := bootstrap{
		pod: p.object, addrs: p.addrs, role: p.role, workload: p.owner.Name, owner: ownerURI(p.owner),
		xds: l.opts.XDS, token: p.token, version: l.opts.IstioVersion, metrics: l.opts.Metrics,
	}
	env, configs := inherit(l.opts.Environ), l.in.proxyConfigsOf(p.object)
	setVariables(env, configs)
	b.metadata = metadataOf(env)
	workload := meteredOf(p, l.in.trustDomain())
	workload.identify(env)
	if l.opts.Metrics {
		p.metrics = workload
	}
	if agent != nil {
		b.sds = agent.Socket()
	}
	workers, err := workersOf(p.object, configs, l.in.concurrency())
	if err != nil {
		return processSpec{}, err
	}
	content, err := b.JSON()
	if err != nil {
		return processSpec{}, fmt.Errorf("envoy's bootstrap: %w", err)
	}
	file := filepath.Join(dir, bootstrapFile)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return processSpec{}, fmt.Errorf("envoy's bootstrap: %w", err)
	}
	return processSpec{
		container: proxyContainer, argv: l.opts.envoyArgs(file, workers),
		env: env.list(), dir: dir,
		readiness: envoyReadiness(p.addrs.Outbound), grace: p.graceWithin(l.opts.Grace),
	}, nil
}

// serves checks whether the pod's Envoy takes calls at a port, and the app's own calls. Most pods
// can answer only once they can call others, and Envoy opens its listeners one by one.
func (p *pod) serves(port int32) check {
	called := tcpCheck(port, p.addrs.Pod)
	if p.role != roleSidecar {
		return called
	}
	calls := tcpCheck(HTTPProxyPort, p.addrs.Outbound)
	return func(ctx context.Context) error { return errors.Join(called(ctx), calls(ctx)) }
}

// ownerURI returns the OWNER of Istio's node metadata.
func ownerURI(o source.Key) string {
	if o.Kind == kinds.Pod {
		return fmt.Sprintf("kubernetes://apis/v1/namespaces/%s/pods/%s", o.Namespace, o.Name)
	}
	return fmt.Sprintf("kubernetes://apis/apps/v1/namespaces/%s/%s/%s", o.Namespace, kinds.Of(o.Kind).Resource, o.Name)
}

// startWorker runs the worker of a prepared pod.
func (l *loop) startWorker(ctx context.Context, p *pod) {
	p.worker.send = func(r report) {
		select {
		case l.reports <- r:
		case <-ctx.Done(): // nobody listens any more
		}
	}
	l.workers.Go(func() { p.worker.run(ctx) })
}

func (l *loop) builder(p *pod) builder {
	ns := p.object.Namespace
	return builder{
		in: envInputs{
			pod: p.object, addrs: p.addrs, sidecar: p.role == roleSidecar, environ: l.opts.Environ,
			services: l.in.services[ns], configMaps: l.in.configMaps[ns],
		},
		role: p.role, self: l.opts.Self, workDir: l.opts.WorkDir, grace: p.graceWithin(l.opts.Grace),
	}
}

// addProblems reports the problems of owners that have changed.
func (l *loop) addProblems(out *source.Event) {
	now := map[string][]source.Problem{}
	for _, o := range l.in.owners() {
		if ps := l.problemsOf(o); len(ps) > 0 {
			now[reportOrigin(o.key)] = ps
		}
	}
	for _, p := range l.balancers.problems {
		origin := reportOrigin(p.Object)
		now[origin] = append(now[origin], p)
	}
	for origin := range l.problems {
		if now[origin] == nil {
			out.Reports = append(out.Reports, source.Report{Origin: origin})
		}
	}
	for origin, ps := range now {
		if !equality.Semantic.DeepEqual(l.problems[origin], ps) {
			out.Reports = append(out.Reports, source.Report{Origin: origin, Problems: ps})
		}
	}
	slices.SortFunc(out.Reports, func(a, b source.Report) int { return strings.Compare(a.Origin, b.Origin) })
	l.problems = now
}

// reportOrigin distinguishes the runtime's reports from the source's, which speak for whole files.
func reportOrigin(key source.Key) string { return "running " + key.String() }

func (l *loop) problemsOf(o owner) []source.Problem {
	p := newPod(o, 0, l.in.namespaces[o.key.Namespace], time.Time{})
	_, problems := l.builder(p).processSpecs()
	if account := p.object.Spec.ServiceAccountName; !l.in.hasAccount(o.key.Namespace, account) {
		problems = append(problems, specProblem{
			path:    "serviceAccountName",
			value:   account,
			message: "there is no such ServiceAccount; a cluster would not start the pod",
			want:    "one that is defined in namespace " + o.key.Namespace,
		})
	}
	var out []source.Problem
	add := func(path string, problems []specProblem) {
		for _, f := range problems {
			out = append(out, source.Problem{
				Severity: f.severity, Object: o.key, Origin: o.origin, Path: path + "." + f.path, Value: f.value,
				Message: f.message, Want: f.want,
			})
		}
	}
	add(o.path, problems)
	if job := l.in.jobs[o.key].object; job != nil {
		add("spec", problemsOfJob(job))
		w, _ := l.workOf(o)
		add("spec", problemOfFailure(w))
	}
	if o.mustSelect() && !o.selectorMatches() {
		out = append(out, source.Problem{
			Severity: source.Warning, Object: o.key, Origin: o.origin, Path: "spec.selector",
			Message: "does not match the labels of spec.template; a cluster would refuse the " + o.key.Kind.Name(),
			Want:    "matchLabels that the template's labels contain",
		})
	}
	return out
}
