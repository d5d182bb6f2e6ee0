package local

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

func TestPlanMembers(t *testing.T) {
	ready := func(ordinal int) replica { return replica{ordinal: ordinal, hash: "new", ready: true} }
	old := func(ordinal int) replica { return replica{ordinal: ordinal, hash: "old", ready: true} }
	unready := replica{ordinal: 0, hash: "new"}
	oldUnready := replica{ordinal: 0, hash: "old"}
	leaving := replica{ordinal: 1, hash: "new", terminating: true}
	both := []replica{ready(0), ready(1)}
	for name, c := range map[string]struct {
		members
		start []int
		stop  []replica
	}{
		"the first one alone":        {members{replicas: 3}, []int{0}, nil},
		"not before the first":       {members{replicas: 3, have: []replica{unready}}, nil, nil},
		"the next":                   {members{replicas: 3, have: []replica{ready(0)}}, []int{1}, nil},
		"all at once":                {members{replicas: 3, parallel: true}, []int{0, 1, 2}, nil},
		"another first ordinal":      {members{replicas: 2, first: 5}, []int{5}, nil},
		"a name that is leaving":     {members{replicas: 2, have: []replica{ready(0), leaving}}, nil, nil},
		"the highest leaves":         {members{replicas: 1, have: both}, nil, both[1:]},
		"one leaves at a time":       {members{replicas: 0, have: []replica{ready(0), leaving}}, nil, nil},
		"an update from the highest": {members{replicas: 2, have: []replica{old(0), old(1)}}, nil, []replica{old(1)}},
		"an update one by one":       {members{replicas: 2, have: []replica{old(0), leaving}}, nil, nil},
		"an old one that is broken":  {members{replicas: 2, have: []replica{oldUnready}}, nil, []replica{oldUnready}},
		"a partition":                {members{replicas: 2, keepBelow: 2, have: []replica{old(0), old(1)}}, nil, nil},
		"OnDelete":                   {members{replicas: 1, keepAll: true, have: []replica{old(0)}}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.hash = "new"
			start, stop := planMembers(c.members)
			require.Equal(t, c.start, start)
			require.Equal(t, c.stop, stop)
		})
	}
}

// TestPlanMembersEndsAtWhatIsWanted plays the plan from any state: it ends with the wanted ordinals
// of the wanted template, and no name is ever there twice.
func TestPlanMembersEndsAtWhatIsWanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := members{
			hash: "new", replicas: rapid.IntRange(0, 4).Draw(t, "replicas"),
			first: rapid.IntRange(0, 2).Draw(t, "first"), parallel: rapid.Bool().Draw(t, "parallel"),
		}
		for i := range 6 {
			if rapid.Bool().Draw(t, "exists") {
				hash := rapid.SampledFrom([]string{"new", "old"}).Draw(t, "hash")
				m.have = append(m.have, replica{ordinal: i, hash: hash, ready: rapid.Bool().Draw(t, "ready")})
			}
		}
		for range 100 {
			start, stop := planMembers(m)
			m.have = slices.DeleteFunc(m.have, func(r replica) bool { return slices.Contains(stop, r) })
			for _, ordinal := range start {
				require.False(t, slices.ContainsFunc(m.have, func(r replica) bool { return r.ordinal == ordinal }))
				m.have = append(m.have, replica{ordinal: ordinal, hash: m.hash})
			}
			for i := range m.have {
				m.have[i].ready = m.have[i].ready || m.have[i].hash == m.hash
			}
		}
		want := map[int]string{}
		for i := range m.replicas {
			want[m.first+i] = "new"
		}
		got := map[int]string{}
		for _, r := range m.have {
			got[r.ordinal] = r.hash
		}
		require.Equal(t, want, got)
	})
}

func statefulSet(name string, replicas int32) source.Change {
	template := deployment(name, replicas, nil).Object.(*appsv1.Deployment).Spec.Template
	return memory.Upsert(kinds.StatefulSet, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, Template: template,
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
		},
	})
}

// TestStatefulSetsPodsHaveStableNames also in the endpoints of their headless Service.
func TestStatefulSetsPodsHaveStableNames(t *testing.T) {
	headless := service("db")
	headless.Object.(*corev1.Service).Spec.ClusterIP = corev1.ClusterIPNone
	m := run(t, Options{SettleTimeout: time.Millisecond}, headless, statefulSet("db", 2))
	running := func(names ...string) func(*Snapshot) bool {
		return func(s *Snapshot) bool {
			if len(s.Pods) != len(names) || !s.Ready() {
				return false
			}
			for i, p := range s.Pods {
				if p.Name != names[i] {
					return false
				}
			}
			return true
		}
	}
	m.await(t, running("db-0", "db-1"))
	var pod *corev1.Pod
	m.world.await(t, func() bool {
		pod, _ = m.world.objects[source.Key{Kind: kinds.Pod, Namespace: "default", Name: "db-1"}].(*corev1.Pod)
		slice, ok := m.world.objects[source.Key{
			Kind: kinds.EndpointSlice, Namespace: "default", Name: "db-local",
		}].(*discoveryv1.EndpointSlice)
		return ok && pod != nil && len(slice.Endpoints) == 2 && *slice.Endpoints[1].Hostname == "db-1"
	})
	require.Equal(t, "db-1", pod.Labels["statefulset.kubernetes.io/pod-name"])
	require.Equal(t, "1", pod.Labels["apps.kubernetes.io/pod-index"])
	require.Equal(t, "db", pod.Spec.Subdomain)

	m.source.Send(context.Background(), statefulSet("db", 1))
	m.await(t, running("db-0"))
}
