package local

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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
	succeeded, failed, next := 0, 0, 0
	for _, a := range w.have {
		next = max(next, a.ordinal+1)
		switch {
		case a.terminating:
		case a.outdated:
			stop = append(stop, a)
		case a.failed:
			failed++
		case a.ended:
			succeeded++
		default:
			active = append(active, a)
		}
	}
	wanted := min(w.parallelism, w.completions-succeeded)
	switch {
	case failed > w.retries:
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
