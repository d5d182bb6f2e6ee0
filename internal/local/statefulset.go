package local

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// members is the input of planMembers: what a StatefulSet wants and what exists.
type members struct {
	first, replicas int
	parallel        bool // no pod waits for those before it
	// keepBelow is the ordinal below which a pod of an old template is kept.
	keepBelow int
	keepAll   bool   // updates wait until a pod is deleted
	hash      string // of the wanted template
	have      []replica
}

// membersOf reads what a StatefulSet asks for.
func membersOf(s *appsv1.StatefulSet, hash string) members {
	m := members{replicas: 1, hash: hash, parallel: s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement}
	if s.Spec.Replicas != nil {
		m.replicas = max(0, int(*s.Spec.Replicas))
	}
	if s.Spec.Ordinals != nil {
		m.first = int(s.Spec.Ordinals.Start)
	}
	m.keepAll = s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		m.keepBelow = int(*u.Partition)
	}
	return m
}

// planMembers returns the ordinals to start and the pods to stop now. Pods start in the order of
// their ordinals, each when those before it are ready, and stop from the highest ordinal, one at a
// time. A pod of an old template stops before its successor starts, since both have one name.
// Unlike in a cluster, an old pod that is not ready is replaced at once.
func planMembers(m members) (start []int, stop []replica) {
	have := slices.Clone(m.have)
	slices.SortFunc(have, func(a, b replica) int { return cmp.Compare(b.ordinal, a.ordinal) })
	byOrdinal := map[int]replica{}
	settled := true // nothing is missing, unready or leaving
	for _, r := range have {
		byOrdinal[r.ordinal] = r
		settled = settled && !r.terminating
	}
	for i := m.first; i < m.first+m.replicas; i++ {
		r, exists := byOrdinal[i]
		ready := exists && r.ready && !r.terminating
		settled = settled && ready
		switch {
		case !exists:
			start = append(start, i)
		case !ready && !r.terminating && m.isOutdated(r):
			stop = append(stop, r)
		}
		if !ready && !m.parallel {
			break
		}
	}
	for _, r := range have {
		excess := r.ordinal < m.first || r.ordinal >= m.first+m.replicas
		switch {
		case r.terminating:
		case excess && m.parallel:
			stop = append(stop, r)
		case settled && (excess || m.isOutdated(r)):
			return start, append(stop, r)
		}
	}
	return start, stop
}

func (m *members) isOutdated(r replica) bool {
	return r.hash != m.hash && !m.keepAll && r.ordinal >= m.keepBelow
}

// identifyMember gives a pod of a StatefulSet its stable name, also as the hostname, and the labels
// that follow from it.
func identifyMember(pod *corev1.Pod, o *owner, ordinal int) {
	pod.Name = fmt.Sprintf("%s-%d", o.key.Name, ordinal)
	pod.Spec.Hostname = pod.Name
	setKey(&pod.Labels, model.PodNameLabel, pod.Name)
	setKey(&pod.Labels, model.PodIndexLabel, strconv.Itoa(ordinal))
	setKey(&pod.Labels, appsv1.ControllerRevisionHashLabelKey, o.key.Name+"-"+o.hash)
}
