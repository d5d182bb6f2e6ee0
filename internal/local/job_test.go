package local

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

func TestPlanWork(t *testing.T) {
	active := func(ordinal int) attempt { return attempt{ordinal: ordinal} }
	done := func(ordinal int) attempt { return attempt{ordinal: ordinal, ended: true} }
	failed := func(ordinal int) attempt { return attempt{ordinal: ordinal, ended: true, failed: true} }
	for name, c := range map[string]struct {
		work
		start []int
		stop  []attempt
	}{
		"one":                   {work{completions: 1, parallelism: 1}, []int{0}, nil},
		"one runs":              {work{completions: 1, parallelism: 1, have: []attempt{active(0)}}, nil, nil},
		"one is done":           {work{completions: 1, parallelism: 1, have: []attempt{done(0)}}, nil, nil},
		"two beside each other": {work{completions: 3, parallelism: 2}, []int{0, 1}, nil},
		"the last": {
			work{completions: 3, parallelism: 2, have: []attempt{done(0), done(1)}}, []int{2}, nil,
		},
		"again": {
			work{completions: 1, parallelism: 1, retries: 1, have: []attempt{failed(0)}}, []int{1}, nil,
		},
		"no more": {
			work{completions: 2, parallelism: 2, have: []attempt{failed(0), active(1)}},
			nil,
			[]attempt{active(1)},
		},
		"a queue": {work{queue: true, parallelism: 2}, []int{0, 1}, nil},
		"a queue that is empty": {
			work{queue: true, parallelism: 2, have: []attempt{done(0), active(1)}}, nil, nil,
		},
		"suspended": {work{completions: 1, have: []attempt{active(0)}}, nil, []attempt{active(0)}},
		"another template": {
			work{completions: 1, parallelism: 1, have: []attempt{{ordinal: 0, outdated: true, ended: true}}},
			[]int{1},
			[]attempt{{ordinal: 0, outdated: true, ended: true}},
		},
		"none": {work{parallelism: 1}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			start, stop := planWork(c.work)
			require.Equal(t, c.start, start)
			require.Equal(t, c.stop, stop)
		})
	}
}

// TestPlanWorkEnds plays the plan with pods that end in any order: there are never more than may
// run beside each other, and in the end as many have succeeded as are wanted, or too many failed.
func TestPlanWorkEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := work{
			completions: rapid.IntRange(0, 4).Draw(t, "completions"), queue: rapid.Bool().Draw(t, "queue"),
			parallelism: rapid.IntRange(1, 3).Draw(t, "parallelism"), retries: rapid.IntRange(0, 2).Draw(t, "retries"),
		}
		succeeded, failed := 0, 0
		for range 40 {
			start, stop := planWork(w)
			w.have = slices.DeleteFunc(w.have, func(a attempt) bool { return slices.Contains(stop, a) })
			for _, ordinal := range start {
				w.have = append(w.have, attempt{ordinal: ordinal})
			}
			running := slices.Collect(func(yield func(int) bool) {
				for i, a := range w.have {
					if !a.ended && !yield(i) {
						return
					}
				}
			})
			require.LessOrEqual(t, len(running), w.parallelism)
			if len(running) == 0 {
				break
			}
			a := &w.have[rapid.SampledFrom(running).Draw(t, "ends")]
			a.ended, a.failed = true, rapid.Bool().Draw(t, "fails")
			if a.failed {
				failed++
			} else {
				succeeded++
			}
		}
		switch {
		case failed > w.retries:
		case w.queue:
			require.Positive(t, succeeded)
		default:
			require.Equal(t, w.completions, succeeded)
		}
	})
}

func job(name, script string, edit func(*batchv1.Job)) source.Change {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	j.Spec.Template = bare(name, script).Object.(*appsv1.Deployment).Spec.Template
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if edit != nil {
		edit(j)
	}
	return memory.Upsert(kinds.Job, j)
}

// TestJobRunsToItsEnd also when its first pod fails.
func TestJobRunsToItsEnd(t *testing.T) {
	marker := t.TempDir() + "/tried"
	m := run(t, Options{}, job("pack", "test -e "+marker+" || { touch "+marker+"; exit 1; }", nil))
	s := m.await(t, func(s *Snapshot) bool {
		return len(s.Pods) == 2 && s.Ready() &&
			!slices.ContainsFunc(s.Pods, func(p PodStatus) bool { return !p.State.ended() })
	})
	require.ElementsMatch(t, []PodState{Completed, Failed}, []PodState{s.Pods[0].State, s.Pods[1].State})
	m.world.await(t, func() bool {
		phases := map[corev1.PodPhase]int{}
		for _, o := range m.world.objects {
			if pod, is := o.(*corev1.Pod); is {
				phases[pod.Status.Phase]++
				require.Equal(t, "pack", pod.Labels[batchv1.JobNameLabel])
			}
		}
		return phases[corev1.PodSucceeded] == 1 && phases[corev1.PodFailed] == 1
	})
	m.source.Send(context.Background(), memory.Delete(kinds.Job, "default", "pack"))
	m.await(t, func(s *Snapshot) bool { return len(s.Pods) == 0 })
}

// TestJobEndsWhenTooManyOfItsPodsFail, and says so.
func TestJobEndsWhenTooManyOfItsPodsFail(t *testing.T) {
	m := run(t, Options{}, job("pack", "exit 3", func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(1)) }))
	var told source.Problem
	m.world.await(t, func() bool {
		for _, problems := range m.world.reports {
			for _, p := range problems {
				if p.Path == "spec.backoffLimit" {
					told = p
				}
			}
		}
		return told.Path != ""
	})
	require.Equal(t, source.Error, told.Severity)
	require.Equal(t, "1", told.Value)
	require.Equal(t, "the Job has failed: 2 of its pods did, and none is started any more", told.Message)
	m.await(t, func(s *Snapshot) bool {
		return len(s.Pods) == 2 && s.Ready() && s.Pods[0].State == Failed && s.Pods[1].State == Failed
	})
}

func TestWhatOfAJobHasNoEffectIsTold(t *testing.T) {
	seconds, indexed := int64(5), batchv1.IndexedCompletion
	c := job("pack", "true", func(j *batchv1.Job) {
		j.Spec.ActiveDeadlineSeconds, j.Spec.CompletionMode = &seconds, &indexed
		j.Spec.Template.Spec.RestartPolicy = ""
	})
	var paths []string
	for _, p := range problemsOfJob(c.Object.(*batchv1.Job)) {
		paths = append(paths, p.path)
	}
	require.Equal(t, []string{"template.spec.restartPolicy", "completionMode", "activeDeadlineSeconds"}, paths)
}

// TestDaemonSetHasOnePod that an update replaces, unless it waits until somebody deletes it.
func TestDaemonSetHasOnePod(t *testing.T) {
	daemon := func(version string, strategy appsv1.DaemonSetUpdateStrategyType) source.Change {
		template := deployment("log", 1, nil).Object.(*appsv1.Deployment).Spec.Template
		template.Spec.Containers[0].Args = []string{"--port", "9080", "--version", version}
		return memory.Upsert(kinds.DaemonSet, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "log"},
			Spec: appsv1.DaemonSetSpec{
				Template: template, Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
				UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: strategy},
			},
		})
	}
	var first string
	m := run(t, Options{SettleTimeout: time.Millisecond}, daemon("v1", ""))
	m.await(t, func(s *Snapshot) bool {
		if len(s.Pods) == 1 && s.Ready() {
			first = s.Pods[0].Name
		}
		return first != ""
	})
	m.source.Send(context.Background(), daemon("v2", ""))
	m.await(t, func(s *Snapshot) bool { return len(s.Pods) == 1 && s.Ready() && s.Pods[0].Name != first })

	old := rollout{replicas: 1, surge: 1, hash: "new", have: []replica{{hash: "old", ready: true}}}
	start, stop := planRollout(old)
	require.Equal(t, 1, start)
	require.Empty(t, stop)
	old.keepOld = daemonRolloutOf(daemon("v1", appsv1.OnDeleteDaemonSetStrategyType).Object.(*appsv1.DaemonSet)).keepOld
	start, stop = planRollout(old)
	require.Zero(t, start)
	require.Empty(t, stop)
}
