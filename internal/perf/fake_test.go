package perf

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fake is a control plane and the sidecars that are connected to it: what is written has arrived
// everywhere when Apply returns, but for what is swallowed.
type fake struct {
	isolated bool
	// swallows tells that a change is lost.
	swallows    func(source.Change) bool
	restarts    int
	misbehaving int
	// warms tells that it can be told to send everything.
	warms bool

	mu     sync.Mutex
	pods   map[string]load.Pod
	hooks  Hooks
	totals Totals
	cpu    atomic.Int64
	done   chan struct{}
	closed bool
}

func newFake() *fake { return &fake{pods: map[string]load.Pod{}, done: make(chan struct{})} }

func (f *fake) options(mesh load.Shape, sidecars int) Options {
	if mesh.Pods == 0 {
		mesh.Pods = max(sidecars, mesh.Services)
	}
	f.isolated = mesh.Isolated
	return Options{
		Mesh:         mesh,
		Sidecars:     sidecars,
		Changes:      3,
		StallTimeout: time.Minute,
		IdleTime:     time.Millisecond,
		Progress:     func(string, int, int) {},
		Plane:        func() controlplane.Plane { return f },
		Fleet: func(address string, h Hooks) (Fleet, error) {
			if address != f.Address() {
				return nil, errors.New("another address")
			}
			f.hooks = h
			return fakeFleet{f}, nil
		},
	}
}

func (f *fake) Start(context.Context, []source.Change) error { return nil }
func (f *fake) Address() string                              { return "127.0.0.1:15010" }
func (f *fake) Done() <-chan struct{}                        { return f.done }
func (f *fake) Err() error                                   { return nil }

func (f *fake) Describe(context.Context) controlplane.Description {
	return controlplane.Description{Name: "fake", Version: "1", Source: "a test"}
}

func (f *fake) Usage(context.Context) (measure.Usage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return measure.Usage{CPU: time.Duration(f.cpu.Add(1)) * time.Second, Resident: int64(len(f.pods)) << 20}, nil
}

func (f *fake) Profile(context.Context) (func() ([]byte, error), error) {
	return func() ([]byte, error) { return []byte("profile"), nil }, nil
}

func (f *fake) Warm(context.Context) (bool, error) { return f.warms, nil }
func (f *fake) Collect(context.Context) error      { return nil }

func (f *fake) Restart(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restarts++
	for pod := range f.pods {
		f.hooks.Synced(pod, time.Now())
	}
	return nil
}

func (f *fake) Close(context.Context) error {
	f.closed = true
	return nil
}

// Apply lets each proxy that may see it have a change, as a resource with the words by which it is
// recognised.
func (f *fake) Apply(_ context.Context, changes ...source.Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range changes {
		if f.swallows != nil && f.swallows(c) {
			continue
		}
		for _, r := range resourcesOf(c) {
			f.send(c.Key.Namespace, r)
		}
	}
	return nil
}

func (f *fake) send(namespace string, r resource) {
	mark := f.hooks.Classify(r.typeURL, r.name, []byte(r.body))
	for name, pod := range f.pods {
		if f.isolated && pod.Namespace != namespace {
			continue
		}
		f.totals.Responses++
		f.totals.Received += int64(len(r.body))
		if mark != 0 {
			f.hooks.Arrived(name, mark, false, time.Now())
		}
	}
}

type resource struct{ typeURL, name, body string }

func resourcesOf(c source.Change) []resource {
	const xds = "type.googleapis.com/envoy.config."
	switch o := c.Object.(type) {
	case *corev1.Service:
		return []resource{{xds + "cluster.v3.Cluster", o.Name, o.Name},
			{xds + "route.v3.VirtualHost", "80/" + o.Name, o.Name}}
	case *discoveryv1.EndpointSlice:
		var addresses []string
		for _, e := range o.Endpoints {
			addresses = append(addresses, e.Addresses...)
		}
		cluster := "outbound|80||" + o.Labels[discoveryv1.LabelServiceName] + "." + o.Namespace + ".svc.cluster.local"
		return []resource{{xds + "endpoint.v3.ClusterLoadAssignment", cluster, strings.Join(addresses, " ")}}
	case *networkingv1.VirtualService:
		return []resource{{xds + "route.v3.RouteConfiguration", "80", o.Spec.Http[0].Name}}
	}
	return nil
}

type fakeFleet struct{ *fake }

func (f fakeFleet) Start(pod load.Pod) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods[pod.Name] = pod
	f.hooks.Synced(pod.Name, time.Now())
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.pods, pod.Name)
	}
}

func (f fakeFleet) StartMisbehaving(pods []load.Pod, _ Disturbance) (Misbehaving, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.misbehaving += len(pods)
	for _, pod := range pods {
		f.pods[pod.Name] = pod
	}
	return fakePatients{f.fake, pods}, nil
}

type fakePatients struct {
	*fake
	pods []load.Pod
}

func (f fakePatients) Synced() int { return len(f.pods) }

func (f fakePatients) Stop() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.misbehaving -= len(f.pods)
	for _, pod := range f.pods {
		delete(f.fake.pods, pod.Name)
	}
	return nil
}

func (f fakeFleet) Totals() Totals {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.totals
}

func (f fakeFleet) Close() {}
