package app

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// bytesOfOneOfMany is how much one changed endpoint of a large service may cost on the wire, for
// each sidecar.
const bytesOfOneOfMany = 350

// TestAnEndpointOfManyCostsFewBytes is a service with 10,000 pods that take mutual TLS, as their
// endpoints say: one that comes or goes is sent to each sidecar by itself, from one encoding.
func TestAnEndpointOfManyCostsFewBytes(t *testing.T) {
	const sidecars, crowd, service = 3, 10_000, 7
	pod := func(n int) *corev1.Pod {
		p := meshgen.Pod(service, 0)
		p.Name = fmt.Sprintf("%s-6d4cf56db6-%05d", meshgen.Name(service), n)
		p.Status.PodIP = fmt.Sprintf("127.99.%d.%d", n/250, n%250+1)
		p.Labels["security.istio.io/tlsMode"] = "istio"
		return p
	}
	pods := func(from, to int) source.Change {
		s := meshgen.Slice(service)
		s.Endpoints = nil
		for n := from; n < to; n++ {
			p := pod(n)
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{p.Status.PodIP},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name},
			})
		}
		return meshgen.Upsert(s)
	}
	objects := slices.Concat(meshgen.Mesh{Services: 10}.Objects(), []source.Change{pods(0, crowd)})
	for n := range crowd + 10 {
		objects = append(objects, meshgen.Upsert(pod(n)))
	}
	r := newRig(t, objects)
	for n := range sidecars {
		p := replica(n)
		r.connect(meshgen.Proxy{
			Namespace:     p.Namespace,
			Pod:           p.Name,
			Labels:        p.Labels,
			Address:       p.Status.PodIP,
			HTTPProxyPort: 15080,
		})
	}
	step := func(change source.Change) sent {
		before := r.sent()
		r.deliver(change)
		for _, c := range r.clients {
			c.push()
		}
		return r.sent().plus(before, -1)
	}
	clusters := 0 // clusters that have the pods: one for each port of the service
	for a := range r.clients[0].session.State().Set(resource.Endpoint).All() {
		if in := a.Collections(); in != nil && in.Len() == crowd {
			clusters++
		}
	}
	step(pods(0, crowd+1))
	for _, c := range r.clients {
		clear(c.frames)
	}
	more := step(pods(0, crowd+2))
	require.Equal(t, sent{Responses: sidecars * clusters, Resources: sidecars * clusters, Bytes: more.Bytes}, more)
	require.LessOrEqual(t, more.Bytes, sidecars*clusters*bytesOfOneOfMany)
	require.Len(t, r.clients[0].frames, clusters)
	require.Equal(t, r.clients[0].frames, r.clients[1].frames, "encoded once")
	less := step(pods(1, crowd+2))
	require.Equal(t, sent{Responses: sidecars * clusters, Removed: sidecars * clusters, Bytes: less.Bytes}, less)
	require.LessOrEqual(t, less.Bytes, sidecars*clusters*bytesOfOneOfMany)
	t.Logf("%d bytes for one that comes, %d for one that goes", more.Bytes/sidecars/clusters,
		less.Bytes/sidecars/clusters)
}
