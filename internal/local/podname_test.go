package local

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestPodsOfAHeadlessServiceHaveNames that callers may use in place of the Service's.
func TestPodsOfAHeadlessServiceHaveNames(t *testing.T) {
	headless := service("db")
	headless.Object.(*corev1.Service).Spec.ClusterIP = corev1.ClusterIPNone
	headless.Object.(*corev1.Service).Annotations = map[string]string{kinds.ExportAnnotation: "default, shop"}
	m := run(t, Options{SettleTimeout: time.Millisecond}, headless, statefulSet("db", 2))
	m.await(t, func(s *Snapshot) bool { return len(s.Pods) == 2 && s.Ready() })

	named := func(name string) *networkingv1.ServiceEntry {
		e, _ := m.world.objects[source.Key{
			Kind: kinds.ServiceEntry, Namespace: "default", Name: name,
		}].(*networkingv1.ServiceEntry)
		return e
	}
	m.world.await(t, func() bool { return named("db-1.db.lateen-local-short") != nil })
	long, short := named("db-1.db.lateen-local"), named("db-1.db.lateen-local-short")
	require.Equal(t, []string{
		"db-1.db.default.svc.cluster.local", "db-1.db.default.svc", "db-1.db.default",
	}, long.Spec.GetHosts())
	require.Equal(t, []string{"default", "shop"}, long.Spec.GetExportTo())
	require.Equal(t, []string{"db-1.db"}, short.Spec.GetHosts())
	require.Equal(t, []string{"."}, short.Spec.GetExportTo())
	require.Equal(t, map[string]string{model.PodNameLabel: "db-1"}, long.Spec.GetWorkloadSelector().GetLabels())
	require.EqualValues(t, 9080, long.Spec.GetPorts()[0].GetTargetPort())
	require.Equal(t, "HTTP", long.Spec.GetPorts()[0].GetProtocol())
}

func TestOnlyHTTPPortsOfHeadlessServicesHaveNamesOfPods(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "db-0"
	pod.Labels = map[string]string{"app": "db", model.PodNameLabel: "db-0"}
	pod.Spec.Subdomain = "db"
	s := service("db").Object.(*corev1.Service)
	require.Empty(t, podNames(s, pod), "its Service has an address")

	s.Spec.ClusterIP = corev1.ClusterIPNone
	require.Len(t, podNames(s, pod), 2)
	s.Spec.Ports[0].Name = "tcp"
	require.Empty(t, podNames(s, pod))
	s.Spec.Ports[0].Name = "http"
	pod.Spec.Subdomain = "other"
	require.Empty(t, podNames(s, pod))
}
