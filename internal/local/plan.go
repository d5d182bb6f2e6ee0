package local

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// plan makes new pods, and marks and returns those that must terminate.
func (l *loop) plan(now time.Time) (leaving []*pod) {
	mark := func(p *pod) {
		if p.terminating == nil {
			at := metav1.NewTime(now)
			p.terminating = &at
			leaving = append(leaving, p)
		}
	}
	wanted := map[source.Key]bool{}
	for _, o := range l.in.owners() {
		wanted[o.key] = true
		switch o.key.Kind {
		case kinds.Deployment:
			l.planRollout(o, rolloutOf(l.in.deployments[o.key].object), now, mark)
		case kinds.DaemonSet:
			l.planRollout(o, daemonRolloutOf(l.in.daemonSets[o.key].object), now, mark)
		case kinds.StatefulSet:
			l.planStatefulSet(o, now, mark)
		case kinds.Job:
			l.planJob(o, now, mark)
		default:
			l.planPod(o, now, mark)
		}
	}
	for _, p := range l.sortedPods() {
		if !wanted[p.owner] {
			mark(p)
		}
	}
	return leaving
}

// planRollout starts and stops the pods of a Deployment or a DaemonSet, which have names of their
// template.
func (l *loop) planRollout(o owner, plan rollout, now time.Time, mark func(*pod)) {
	have, byReplica := l.replicasOf(o.key, now)
	plan.have = have
	start, stop := planRollout(plan)
	for _, r := range stop {
		mark(byReplica[r])
	}
	for ordinal := 0; start > 0; ordinal++ {
		p := newPod(o, ordinal, l.in.namespaces[o.key.Namespace], now)
		if l.pods[p.key()] == nil {
			l.pods[p.key()] = p
			start--
		}
	}
}

// planJob starts and stops the pods of a Job. Those that have ended stay, and say how.
func (l *loop) planJob(o owner, now time.Time, mark func(*pod)) {
	plan, byAttempt := l.workOf(o)
	start, stop := planWork(plan)
	for _, a := range stop {
		mark(byAttempt[a.ordinal])
	}
	for _, ordinal := range start {
		p := newPod(o, ordinal, l.in.namespaces[o.key.Namespace], now)
		l.pods[p.key()] = p
	}
}

// workOf returns what a Job wants and what there is of its pods.
func (l *loop) workOf(o owner) (w work, pods map[int]*pod) {
	w, pods = workOf(l.in.jobs[o.key].object), map[int]*pod{}
	for _, p := range l.sortedPods() {
		if p.owner != o.key {
			continue
		}
		a := attempt{ordinal: p.ordinal, outdated: p.hash != o.hash, terminating: p.terminating != nil}
		a.ended, a.failed = p.completed(), p.phase() == corev1.PodFailed
		pods[p.ordinal] = p
		w.have = append(w.have, a)
	}
	return w, pods
}

// planStatefulSet starts and stops pods with stable names. A name that another pod has is waited
// for.
func (l *loop) planStatefulSet(o owner, now time.Time, mark func(*pod)) {
	plan := membersOf(l.in.statefulSets[o.key].object, o.hash)
	have, byReplica := l.replicasOf(o.key, now)
	plan.have = have
	start, stop := planMembers(plan)
	for _, r := range stop {
		mark(byReplica[r])
	}
	for _, ordinal := range start {
		p := newPod(o, ordinal, l.in.namespaces[o.key.Namespace], now)
		if l.pods[p.key()] == nil {
			l.pods[p.key()] = p
		}
	}
}

// replicasOf returns what there is of an owner's pods.
func (l *loop) replicasOf(key source.Key, now time.Time) (have []replica, pods map[replica]*pod) {
	pods = map[replica]*pod{}
	for _, p := range l.sortedPods() {
		if p.owner == key {
			ready := p.isReady() && len(l.closed(p, now)) == 0
			r := replica{ordinal: p.ordinal, hash: p.hash, ready: ready, terminating: p.terminating != nil}
			pods[r] = p
			have = append(have, r)
		}
	}
	return have, pods
}

// planPod keeps one pod for a Pod object. A changed one is replaced when the old one has ended,
// since both have the same name.
func (l *loop) planPod(o owner, now time.Time, mark func(*pod)) {
	p := l.pods[o.key]
	switch {
	case p == nil:
		l.pods[o.key] = newPod(o, 0, l.in.namespaces[o.key.Namespace], now)
	case p.owner == o.key && p.hash != o.hash:
		mark(p)
	}
}
