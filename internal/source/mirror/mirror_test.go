package mirror

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

var meta = metav1.ObjectMeta{Namespace: "default", Name: "db"}

func serviceWith(selector map[string]string) source.Change {
	return memory.Upsert(kinds.Service, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: selector}})
}

func endpointsAt(ips ...string) source.Change {
	e := &endpoints{ObjectMeta: meta}
	for _, ip := range ips {
		e.Subsets = append(e.Subsets, subset{
			Addresses: []address{{IP: ip, Hostname: "a"}}, NotReadyAddresses: []address{{IP: "10.0.0.9"}},
			Ports: []corev1.EndpointPort{{Name: "tcp", Port: 5432}},
		})
	}
	return memory.Upsert(kinds.Endpoints, e)
}

func sending(t *testing.T) func(...source.Change) ([]source.Change, []source.Report) {
	t.Helper()
	m := newMirror()
	return func(changes ...source.Change) ([]source.Change, []source.Report) {
		out := m.add(source.Event{Changes: changes, Synced: true})
		require.Equal(t, changes, out.Changes[:len(changes)], "what the source has is delivered first")
		return out.Changes[len(changes):], out.Reports
	}
}

func TestEndpointsOfServiceWithoutSelectorAreMirrored(t *testing.T) {
	send := sending(t)
	changes, reports := send(serviceWith(nil), endpointsAt("10.0.0.1"))
	require.Empty(t, reports)
	require.Len(t, changes, 1)
	slice := changes[0].Object.(*discoveryv1.EndpointSlice)
	require.Equal(t, "db-mirrored", slice.Name)
	require.Equal(t, "db", slice.Labels[discoveryv1.LabelServiceName])
	require.Equal(t, corev1.ProtocolTCP, *slice.Ports[0].Protocol)
	require.EqualValues(t, 5432, *slice.Ports[0].Port)
	ready := map[string]bool{}
	for _, e := range slice.Endpoints {
		ready[e.Addresses[0]] = *e.Conditions.Ready
	}
	require.Equal(t, map[string]bool{"10.0.0.1": true, "10.0.0.9": false}, ready)

	changes, _ = send(endpointsAt("10.0.0.1"))
	require.Empty(t, changes, "nothing has changed")

	changes, _ = send(endpointsAt("10.0.0.1", "2001:db8::1"))
	require.Len(t, changes, 2, "two more slices: one of each family")
	require.Equal(t, discoveryv1.AddressTypeIPv6, changes[1].Object.(*discoveryv1.EndpointSlice).AddressType)

	changes, _ = send(endpointsAt("10.0.0.1"))
	require.Len(t, changes, 2)
	require.Nil(t, changes[0].Object)

	changes, _ = send(memory.Delete(kinds.Endpoints, "default", "db"))
	require.Len(t, changes, 1)
	require.Nil(t, changes[0].Object)
	require.Equal(t, "db-mirrored", changes[0].Key.Name)
}

func TestEndpointsThatNobodyMirrorsAreTold(t *testing.T) {
	send := sending(t)
	changes, reports := send(endpointsAt("10.0.0.1"))
	require.Empty(t, changes)
	require.Contains(t, reports[0].Problems[0].Message, "no Service has this name")

	changes, reports = send(serviceWith(map[string]string{"app": "db"}))
	require.Empty(t, changes)
	require.Contains(t, reports[0].Problems[0].Message, "has a selector")

	changes, reports = send(serviceWith(nil))
	require.Len(t, changes, 1, "from now on they count")
	require.Empty(t, reports[0].Problems)

	skipped := endpointsAt("10.0.0.1")
	skipped.Object.(*endpoints).Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"}
	changes, reports = send(skipped)
	require.Nil(t, changes[0].Object)
	require.Empty(t, reports, "as its owner wants")

	changes, _ = send(endpointsAt("10.0.0.1"))
	require.Len(t, changes, 1)
	lock := endpointsAt("10.0.0.1")
	lock.Object.(*endpoints).Annotations = map[string]string{leaderAnnotation: "{}"}
	changes, reports = send(lock)
	require.Nil(t, changes[0].Object, "a lock of leaders is no endpoint")
	require.Empty(t, reports)
}

// A directory tells of its own that an object moved within a file.
func TestProblemsFollowEndpointsThatMove(t *testing.T) {
	m := New(memory.New(endpointsAt("10.0.0.1")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reports []source.Report
	require.NoError(t, m.Run(ctx, func(e source.Event) {
		reports = e.Reports
		cancel()
	}))
	require.Len(t, reports, 1)

	inner := newMirror()
	inner.add(source.Event{Changes: []source.Change{endpointsAt("10.0.0.1")}, Synced: true})
	key := source.Key{Kind: kinds.Endpoints, Namespace: "default", Name: "db"}
	moved := inner.add(source.Event{Moved: []source.Place{{Key: key, Origin: "a.yaml:9"}}})
	require.Equal(t, "a.yaml:9", moved.Reports[0].Problems[0].Origin)
}
