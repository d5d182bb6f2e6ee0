package local

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/source"
)

// attempt is what planWork needs to know of one pod of a Job. Ordinals count the pods, from 0.
type attempt struct {
	ordinal     int
	outdated    bool // of an old template
	terminating bool
	ended       bool // its processes have ended for good
	failed      bool // one of them with an error
}

// work is the input of planWork: what a Job wants and what exists.
type work struct {
	completions int // how many pods must succeed
	// queue says that the pods share a queue of work: any number, and none starts once one has
	// succeeded.
	queue       bool
	parallelism int
	retries     int // failed pods beyond these end the Job
	have        []attempt
}

// workOf reads what a Job asks for (batch/v1 JobSpec).
func workOf(j *batchv1.Job) work {
	w := work{completions: 1, parallelism: 1, retries: 6}
	if p := j.Spec.Parallelism; p != nil {
		w.parallelism, w.queue = max(0, int(*p)), true
	}
	if c := j.Spec.Completions; c != nil {
		w.completions, w.queue = max(0, int(*c)), false
	}
	if b := j.Spec.BackoffLimit; b != nil {
		w.retries = max(0, int(*b))
	}
	if s := j.Spec.Suspend; s != nil && *s {
		w.parallelism = 0
	}
	return w
}

// planWork returns the ordinals to start and the pods to stop now. Called again after each change,
// it leads to as many successes as are wanted, or to one failure more than may be retried. A pod of
// an old template is stopped, and all starts anew: in a cluster a Job's template cannot change.
func planWork(w work) (start []int, stop []attempt) {
	var active []attempt
	succeeded, next := 0, 0
	_, hasFailed := w.hasFailed()
	for _, a := range w.have {
		next = max(next, a.ordinal+1)
		switch {
		case a.terminating:
		case a.outdated:
			stop = append(stop, a)
		case a.failed:
		case a.ended:
			succeeded++
		default:
			active = append(active, a)
		}
	}
	wanted := min(w.parallelism, w.completions-succeeded)
	switch {
	case hasFailed:
		wanted = 0
	case w.queue && succeeded > 0:
		wanted = min(w.parallelism, len(active)) // these end by themselves
	case w.queue:
		wanted = w.parallelism
	}
	for i := len(active); i < wanted; i++ {
		start = append(start, next)
		next++
	}
	slices.SortFunc(active, func(a, b attempt) int { return cmp.Compare(a.ordinal, b.ordinal) })
	return start, append(stop, active[min(len(active), max(0, wanted)):]...)
}

// hasFailed reports whether more pods have failed than the Job may retry, and how many did.
func (w work) hasFailed() (failed int, is bool) {
	for _, a := range w.have {
		if a.failed && !a.outdated && !a.terminating {
			failed++
		}
	}
	return failed, failed > w.retries
}

// problemOfFailure returns what there is to say of a Job that has failed.
func problemOfFailure(w work) (found []specProblem) {
	if failed, is := w.hasFailed(); is {
		found = append(found, specProblem{
			severity: source.Error, path: "backoffLimit", value: strconv.Itoa(w.retries),
			message: fmt.Sprintf("the Job has failed: %d of its pods did, and none is started any more", failed),
			want:    "a Job whose processes end with status 0",
		})
	}
	return found
}

// identifyWorker gives a pod of a Job the name and the labels that a cluster would.
func identifyWorker(pod *corev1.Pod, o *owner, ordinal int) {
	pod.Name = podNameOf(o, ordinal)
	setKey(&pod.Labels, batchv1.JobNameLabel, o.key.Name)
	setKey(&pod.Labels, "job-name", o.key.Name) // as before Kubernetes 1.27, and still
}

// problemsOfJob are the parts of a Job that have no effect here.
func problemsOfJob(j *batchv1.Job) (found []specProblem) {
	leftOut := func(is bool, path, value, message string) {
		if is {
			found = append(found, specProblem{path: path, value: value, message: message})
		}
	}
	s := &j.Spec
	restart := s.Template.Spec.RestartPolicy
	if restart != corev1.RestartPolicyNever && restart != corev1.RestartPolicyOnFailure {
		found = append(found, specProblem{
			path: "template.spec.restartPolicy", value: string(restart),
			message: "a cluster would refuse the Job, and its processes start again and again",
			want:    "Never or OnFailure",
		})
	}
	indexed := s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
	leftOut(indexed, "completionMode", string(batchv1.IndexedCompletion), "has no effect here: pods get no index")
	leftOut(s.ActiveDeadlineSeconds != nil, "activeDeadlineSeconds", "", "has no effect here")
	leftOut(s.TTLSecondsAfterFinished != nil, "ttlSecondsAfterFinished", "", "has no effect here: ended pods stay")
	leftOut(s.PodFailurePolicy != nil, "podFailurePolicy", "", "has no effect here")
	leftOut(s.SuccessPolicy != nil, "successPolicy", "", "has no effect here")
	return found
}
