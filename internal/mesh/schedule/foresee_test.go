package schedule_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// TestForesee: what changes would make of the mesh is known, with the age that objects have or
// would have, and nothing of it happens.
func TestForesee(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, istio)
		old := service("a", 80)
		old.Object.SetCreationTimestamp(metav1.Unix(100, 0))
		r.sink(source.Event{Changes: []source.Change{old}, Synced: true})
		advance(time.Second)
		foresee := func(born time.Time, changes ...source.Change) (seen schedule.Foreseen) {
			require.NoError(t, r.loop.Foresee(t.Context(), changes, born, func(f schedule.Foreseen) { seen = f }))
			return seen
		}

		seen := foresee(time.Unix(200, 0), service("a", 81), service("b", 80))
		require.Len(t, seen.Delta.Services, 2)
		ages := map[string]int64{}
		for _, s := range seen.Delta.Services {
			ages[s.New.Name] = s.New.Created
		}
		require.Equal(t, map[string]int64{"a": 100, "b": 200}, ages)
		require.Equal(t, map[source.Key]bool{old.Key: false, service("b", 80).Key: true}, seen.New)

		require.True(t, foresee(time.Time{}, service("a", 80)).Delta.IsEmpty(), "it is there as it is")
		assigned := service("assigned", 80)
		spec := &assigned.Object.(*corev1.Service).Spec
		spec.Type, spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, []string{"192.0.2.7"}
		manifest := source.Change{Key: assigned.Key, Object: assigned.Object.(*corev1.Service).DeepCopy()}
		spec.ClusterIP, spec.ClusterIPs = "10.0.0.7", []string{"10.0.0.7", "fd00::7"}
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		assigned.Object.(*corev1.Service).Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
			{IP: "198.51.100.7"}, {Hostname: "balancer.example.com"},
		}
		r.sink(source.Event{Changes: []source.Change{assigned}})
		advance(time.Second)
		generations := len(r.published())
		require.True(t, foresee(time.Time{}, manifest).Delta.IsEmpty(), "a manifest says nothing of what was assigned")

		gone := foresee(time.Time{}, source.Change{Key: old.Key})
		require.Equal(t, model.Host("a.default.svc.cluster.local"), gone.Delta.Services[0].Old.Host)
		broken := foresee(time.Time{}, memory.Upsert(kinds.Service, &corev1.Service{
			ObjectMeta: old.Object.(*corev1.Service).ObjectMeta,
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: "SCTP"}}},
		}))
		require.NotEmpty(t, broken.Appeared)
		advance(time.Minute)
		require.Len(t, r.published(), generations, "nothing happened")
		require.Equal(t, []source.Problem(nil), foresee(time.Time{}, service("a", 80)).Mended)
	})
}
