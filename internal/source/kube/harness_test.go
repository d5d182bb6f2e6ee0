package kube_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	istioclient "istio.io/client-go/pkg/clientset/versioned"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

var shared kubeapi.Shared

func TestMain(m *testing.M) { os.Exit(leak.Run(func() int { return shared.Run(m) })) }

// eventually waits until a condition holds, for as long as the test may run.
func eventually(t testing.TB, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 3*time.Minute, 10*time.Millisecond)
}

// cluster is a client of an API server.
type cluster struct {
	*kubernetes.Clientset
	istio *istioclient.Clientset
}

func clientOf(t testing.TB, config *rest.Config) cluster {
	config.QPS = -1
	core, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	istio, err := istioclient.NewForConfig(config)
	require.NoError(t, err)
	return cluster{core, istio}
}

// sink is who the source delivers to. It holds what was delivered, and stops the test if a promise
// is broken.
type sink struct {
	t       testing.TB
	metrics *observe.Metrics

	mu       sync.Mutex
	events   []source.Event
	objects  map[source.Key]metav1.Object
	problems map[string][]source.Problem
	synced   int
}

func (s *sink) take(e source.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[source.Key]bool{}
	for _, c := range e.Changes {
		if seen[c.Key] {
			s.t.Errorf("%s is twice in one event", c.Key)
		}
		seen[c.Key] = true
		if c.ObservedAt.IsZero() {
			s.t.Errorf("%s came at no time", c.Key)
		}
		if c.Object == nil {
			if s.objects[c.Key] == nil {
				s.t.Errorf("%s is deleted and was never there", c.Key)
			}
			delete(s.objects, c.Key)
			continue
		}
		s.objects[c.Key] = c.Object
	}
	for _, r := range e.Reports {
		if len(r.Problems) == 0 {
			delete(s.problems, r.Origin)
		} else {
			s.problems[r.Origin] = r.Problems
		}
	}
	if e.Synced {
		s.synced++
	}
	s.events = append(s.events, e)
}

// run runs a source until the test ends.
func run(t testing.TB, o kube.Options) *sink {
	t.Helper()
	s := newSink(t)
	stop := s.start(o, s.take)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("problems at the end:\n%s", s.problem(""))
		}
		stop()
	})
	return s
}

func newSink(t testing.TB) *sink {
	return &sink{t: t, metrics: observe.New(
		observe.Build{Now: time.Now},
	), objects: map[source.Key]metav1.Object{}, problems: map[string][]source.Problem{}}
}

func (s *sink) start(o kube.Options, deliver source.Sink) (stop func()) {
	s.t.Helper()
	if o.RootNamespace == "" {
		o.RootNamespace = "istio-system"
	}
	if o.ConfigMap == "" {
		o.ConfigMap = "istio"
	}
	o.Cluster, o.Metrics = "Kubernetes", &s.metrics.Source
	from, err := kube.New(o)
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- from.Run(ctx, deliver) }()
	return sync.OnceFunc(func() {
		cancel()
		require.NoError(s.t, <-done)
	})
}

func (s *sink) awaitSync() {
	s.t.Helper()
	eventually(s.t, func() bool { return s.isSynced() })
}

func (s *sink) isSynced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced == 1
}

func (s *sink) get(k source.Key) metav1.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[k]
}

// in are the objects of a namespace, as "Kind name".
func (s *sink) in(namespace string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for k := range maps.Keys(s.objects) {
		if k.Namespace == namespace && k.Name != "kube-root-ca.crt" {
			names = append(names, string(k.Kind)+" "+k.Name)
		}
	}
	slices.Sort(names)
	return names
}

// problem is what is said of an origin, in one line each.
func (s *sink) problem(origin string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for o, problems := range s.problems {
		if strings.HasPrefix(o, origin) {
			for _, p := range problems {
				lines = append(lines, p.String())
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// count is how many events there were so far; since gives those after a count that are about a
// namespace, or all for "".
func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events)
}

func (s *sink) since(count int, namespace string) []source.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []source.Event
	for _, e := range s.events[count:] {
		if slices.ContainsFunc(
			e.Changes, func(c source.Change) bool { return namespace == "" || c.Key.Namespace == namespace },
		) {
			found = append(found, e)
		}
	}
	return found
}

// counter is the value of a counter for these values of its labels, in any order.
func (s *sink) counter(name string, labels ...string) float64 {
	families, err := s.metrics.Registry.Gather()
	require.NoError(s.t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			matches := 0
			for _, l := range m.GetLabel() {
				if slices.Contains(labels, l.GetValue()) {
					matches++
				}
			}
			if matches == len(labels) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}
