package local

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// replica is what planRollout needs to know of one pod.
type replica struct {
	ordinal     int
	hash        string
	ready       bool
	terminating bool
}

// rollout is the input of planRollout: what is wanted and what exists.
type rollout struct {
	replicas int
	surge    int // how many pods more than replicas there may be during an update
	recreate bool
	keepOld  bool   // a pod of an old template stays until somebody deletes it
	hash     string // of the wanted template
	have     []replica
}

// rolloutOf reads what a Deployment asks for.
func rolloutOf(d *appsv1.Deployment) rollout {
	r := rollout{replicas: 1, hash: templateHash(&d.Spec.Template)}
	if d.Spec.Replicas != nil {
		r.replicas = max(0, int(*d.Spec.Replicas))
	}
	r.recreate = d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	surge := intstr.FromString("25%") // Kubernetes' default
	if u := d.Spec.Strategy.RollingUpdate; u != nil && u.MaxSurge != nil {
		surge = *u.MaxSurge
	}
	// Without a surge nothing could ever be replaced, since no ready pod is taken away before its
	// successor is ready.
	n, err := intstr.GetScaledValueFromIntOrPercent(&surge, r.replicas, true)
	if err != nil {
		n = 1
	}
	r.surge = max(1, n)
	return r
}

// planRollout returns how many pods of the wanted template to start and which pods to stop now.
// Called again after each change, it leads from any state to exactly the wanted replicas. If that
// many pods are ready, it never goes below.
func planRollout(r rollout) (start int, stop []replica) {
	var current, old []replica
	terminating := 0
	for _, p := range r.have {
		switch {
		case p.terminating:
			terminating++
		case p.hash == r.hash:
			current = append(current, p)
		default:
			old = append(old, p)
		}
	}
	if r.keepOld {
		current, old = append(current, old...), nil
	}
	if r.recreate && len(old) > 0 {
		return 0, old
	}
	if r.recreate && terminating > 0 && len(current) == 0 {
		return 0, nil
	}
	stop = excess(current, r.replicas)
	start = min(r.replicas-len(current), r.replicas+r.surge-len(current)-len(old))
	return max(0, start), append(stop, replaced(old, r.replicas-ready(current))...)
}

// excess returns the pods beyond the wanted number: first those that are not ready, then the
// youngest.
func excess(pods []replica, want int) []replica {
	if len(pods) <= want {
		return nil
	}
	sorted := slices.Clone(pods)
	slices.SortFunc(sorted, dispensableFirst)
	return sorted[:len(sorted)-want]
}

// replaced returns the old pods that are no longer needed: those that are not ready, and the ready
// ones beyond what the new ones still lack.
func replaced(old []replica, gap int) []replica {
	sorted := slices.Clone(old)
	slices.SortFunc(sorted, dispensableFirst)
	n := len(old) - ready(old)
	n += max(0, ready(old)-max(0, gap))
	return sorted[:n]
}

func dispensableFirst(a, b replica) int {
	if a.ready != b.ready {
		if b.ready {
			return -1
		}
		return 1
	}
	return cmp.Compare(b.ordinal, a.ordinal)
}

func ready(pods []replica) int {
	n := 0
	for _, p := range pods {
		if p.ready {
			n++
		}
	}
	return n
}

// nameAlphabet is the alphabet of Kubernetes' generated names. It has no vowels, so that no words
// arise.
const nameAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// templateHash returns the value of the label pod-template-hash.
func templateHash(t *corev1.PodTemplateSpec) string {
	encoded, err := json.Marshal(t)
	if err != nil { // cannot happen: the type has only plain fields
		encoded = fmt.Append(nil, t)
	}
	return safeHash(9, string(encoded))
}

// podName returns the name of one replica. It is the same in every run for the same Deployment,
// template and ordinal.
func podName(deployment, hash string, ordinal int) string {
	return fmt.Sprintf("%s-%s-%s", deployment, hash, safeHash(5, deployment, hash, fmt.Sprint(ordinal)))
}

func safeHash(length int, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	sum := h.Sum(nil)
	out := make([]byte, length)
	for i := range out {
		out[i] = nameAlphabet[int(sum[i])%len(nameAlphabet)]
	}
	return string(out)
}
