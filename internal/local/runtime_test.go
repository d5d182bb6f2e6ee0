package local

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/local/sample"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// patience is how long tests wait for what should happen in a moment.
const patience = 3 * time.Minute

// world is the far end of the flow: it holds the latest of all that a runtime delivered.
type world struct {
	mu      sync.Mutex
	objects map[source.Key]metav1.Object
	reports map[string][]source.Problem
	changed chan struct{}
}

func (w *world) sink(e source.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range e.Changes {
		if c.Object == nil {
			delete(w.objects, c.Key)
		} else {
			w.objects[c.Key] = c.Object
		}
	}
	for _, r := range e.Reports {
		w.reports[r.Origin] = r.Problems
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) await(t *testing.T, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		done, changed := condition(), w.changed
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			require.FailNow(t, "it did not happen")
		}
	}
}

// endpoints are the addresses of a Service's ready endpoints.
func (w *world) endpoints(service string) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slice, ok := w.objects[source.Key{
		Kind:      kinds.EndpointSlice,
		Namespace: "default",
		Name:      service + "-local",
	}].(*discoveryv1.EndpointSlice)
	if !ok {
		return nil
	}
	for _, e := range slice.Endpoints {
		if *e.Conditions.Ready {
			out = append(out, e.Addresses[0])
		}
	}
	return out
}

// mesh is a runtime under test.
type mesh struct {
	*Runtime
	source  *memory.Source
	world   *world
	notices chan Notice
	stop    func()
}

func run(t *testing.T, opts Options, initial ...source.Change) *mesh {
	t.Helper()
	upstream := memory.New(initial...)
	m := runSource(t, opts, upstream)
	m.source = upstream
	return m
}

func runSource(t *testing.T, opts Options, upstream source.Source) *mesh {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	m := &mesh{
		world: &world{
			objects: map[source.Key]metav1.Object{},
			reports: map[string][]source.Problem{},
			changed: make(chan struct{}),
		},
		notices: make(chan Notice, 1000),
	}
	if opts.Envoy == "" {
		opts.Envoy = self
	}
	if !opts.XDS.IsValid() {
		opts.XDS = netip.MustParseAddrPort("127.0.0.1:15010")
	}
	opts.Self, opts.StateDir = self, filepath.Join(t.TempDir(), "state")
	opts.WorkDir, opts.Environ = t.TempDir(), os.Environ()
	opts.Backoff, opts.IstioVersion = 10*time.Millisecond, "1.31.0"
	opts.Notify = func(n Notice) { m.notices <- n }
	m.Runtime, err = New(upstream, opts)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx, m.world.sink) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(m.stop)
	return m
}

func (m *mesh) await(t *testing.T, condition func(*Snapshot) bool) *Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := m.Await(ctx, condition)
	require.NoError(t, err, "%+v", s)
	return s
}

// awaitNotice returns the first notice whose text contains a word.
func (m *mesh) awaitNotice(t *testing.T, word string) Notice {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case n := <-m.notices:
			if strings.Contains(n.Text, word) {
				return n
			}
		case <-deadline:
			require.FailNow(t, "nobody said "+word)
		}
	}
}

func deployment(name string, replicas int32, edit func(*appsv1.Deployment)) source.Change {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	labels := map[string]string{"app": name, "port": "9080"}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "app", Image: "lateen/sample:1", Args: []string{"--port", "9080", "--version", "v1"},
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 9080}},
	}}
	if edit != nil {
		edit(d)
	}
	c := memory.Upsert(kinds.Deployment, d)
	c.Origin = name + ".yaml:1"
	return c
}

// bare makes a Deployment without sidecars that runs a shell script.
func bare(name, script string) source.Change {
	return deployment(name, 1, func(d *appsv1.Deployment) {
		d.Spec.Template.Labels["sidecar.istio.io/inject"] = "false"
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Command: []string{"sh", "-c", script}}}
	})
}

func service(name string) source.Change {
	return memory.Upsert(kinds.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 9080}},
		},
	})
}

func ask(address, path string) (sample.Echoed, error) {
	var e sample.Echoed
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + address + ":9080" + path)
	if err != nil {
		return e, err
	}
	defer func() { _ = resp.Body.Close() }()
	return e, json.NewDecoder(resp.Body).Decode(&e)
}

func TestPodsServeAndAreAnnounced(t *testing.T) {
	m := run(t, Options{}, service("web"), deployment("web", 2, nil))
	s := m.await(t, (*Snapshot).Ready)
	require.Len(t, s.Pods, 2)
	endpoints := m.world.endpoints("web")
	require.Len(t, endpoints, 2)
	for i, address := range endpoints {
		e, err := ask(address, "/hello")
		require.NoError(t, err)
		require.Equal(t, s.Pods[i].Name, e.Hostname)
		require.Equal(t, "v1", e.Version)
	}
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	published := m.world.objects[source.Key{Kind: kinds.Pod, Namespace: "default", Name: s.Pods[0].Name}].(*corev1.Pod)
	require.Equal(t, s.Pods[0].App.String(), published.Annotations[AppAddress])
	require.Equal(t, s.Pods[0].Outbound.String(), published.Annotations[OutboundAddress])
	require.Equal(t, corev1.PodRunning, published.Status.Phase)
	require.Equal(t, "default", published.Spec.ServiceAccountName)
}

// TestNoRequestFailsWhileScaling keeps a load on a service through scaling up, down and a new
// version.
func TestNoRequestFailsWhileScaling(t *testing.T) {
	var proxies atomic.Pointer[mesh]
	// Each request of the load below looks at the endpoints, and holds this until it is answered.
	var requests sync.RWMutex
	settled := func(context.Context) ([]string, error) {
		requests.Lock() // those who looked before have been answered
		defer requests.Unlock()
		return proxies.Load().Snapshot().proxies(), nil
	}
	m := run(t, Options{Settled: settled}, service("web"), deployment("web", 2, nil))
	proxies.Store(m)
	m.await(t, (*Snapshot).Ready)

	var sent, failed atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	for range 3 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				requests.RLock()
				endpoints := m.world.endpoints("web")
				sent.Add(1)
				if len(endpoints) == 0 {
					failed.Add(1)
				} else if _, err := ask(endpoints[i%len(endpoints)], "/delay/20"); err != nil {
					t.Log(err)
					failed.Add(1)
				}
				requests.RUnlock()
			}
		})
	}
	running := func(n int, version string) func(*Snapshot) bool {
		return func(s *Snapshot) bool {
			if len(s.Pods) != n || !s.Ready() {
				return false
			}
			e, err := ask(s.Pods[0].Pod.String(), "/")
			return err == nil && e.Version == version
		}
	}
	newVersion := func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Args = []string{"--port", "9080", "--version", "v2"}
	}
	m.source.Send(ctx, deployment("web", 4, nil))
	m.await(t, running(4, "v1"))
	m.source.Send(ctx, deployment("web", 1, nil))
	m.await(t, running(1, "v1"))
	m.source.Send(ctx, deployment("web", 3, newVersion))
	m.await(t, running(3, "v2"))
	cancel()
	load.Wait()
	require.Positive(t, sent.Load())
	require.Zero(t, failed.Load(), "of %d", sent.Load())
}

func TestCrashIsShownAndRestarted(t *testing.T) {
	m := run(t, Options{}, bare("bad", "echo first; echo boom >&2; exit 3"))
	n := m.awaitNotice(t, "crashed: exit status 3")
	require.True(t, n.Bad)
	require.Equal(t, "app", n.Container)
	require.Equal(t, []string{"first", "boom"}, n.Tail)
	s := m.await(t, func(s *Snapshot) bool {
		return len(s.Pods) == 1 && s.Pods[0].Restarts >= 2 && s.Pods[0].State == Crashing
	})
	require.Contains(t, s.Pods[0].Why, "starts again in")
}

// TestEndpointWaitsForTheNextEnvoy kills an Envoy: although the next one says that it is ready, its
// endpoint comes back only when it listens at the ports at which the one before did.
func TestEndpointWaitsForTheNextEnvoy(t *testing.T) {
	m := run(t, Options{ListenWait: patience}, service("web"), deployment("web", 1, nil))
	pod := m.await(t, (*Snapshot).Ready).Pods[0]
	require.Len(t, m.world.endpoints("web"), 1)
	hold := filepath.Join(m.opts.StateDir, "pods", "default", pod.Name, holdFile)
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	envoy := func(s *Snapshot) ProcessStatus {
		return s.Pods[0].Processes[slices.IndexFunc(s.Pods[0].Processes, func(p ProcessStatus) bool {
			return p.Name == proxyContainer
		})]
	}
	require.NoError(t, syscall.Kill(envoy(m.Snapshot()).PID, syscall.SIGKILL))
	s := m.await(t, func(s *Snapshot) bool { return envoy(s).Restarts == 1 && envoy(s).Ready })
	require.Empty(t, m.world.endpoints("web"))
	require.Contains(t, s.Pods[0].Why, "its Envoy does not listen at "+pod.Pod.String()+":9080 yet")

	require.NoError(t, os.Remove(hold))
	m.await(t, (*Snapshot).Ready)
	require.Len(t, m.world.endpoints("web"), 1)
	_, err := ask(pod.Pod.String(), "/")
	require.NoError(t, err)
}

func TestLivenessRestarts(t *testing.T) {
	change := bare("dead", "sleep 1000")
	c := &change.Object.(*appsv1.Deployment).Spec.Template.Spec.Containers[0]
	c.LivenessProbe = &corev1.Probe{FailureThreshold: 1}
	c.LivenessProbe.Exec = &corev1.ExecAction{Command: []string{"false"}}
	m := run(t, Options{}, change)
	m.awaitNotice(t, "liveness probe failed")
	m.await(t, func(s *Snapshot) bool { return s.Pods[0].Restarts > 0 })
}

func TestEndLeavesNoProcess(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	m := run(t, Options{}, bare("family", "sleep 1000 & echo $$$$ $! >"+pids+"; wait"), deployment("web", 1, nil))
	m.await(t, (*Snapshot).Ready)
	var family []string
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(pids)
		family = strings.Fields(string(content))
		return err == nil && len(family) == 2
	}, patience, fastPeriod)
	m.stop()
	for _, pid := range family {
		n, err := strconv.Atoi(pid)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return gone(n) }, patience, fastPeriod)
	}
}

// gone reports whether a process has ended; whoever inherited it may not have noticed yet.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// TestKilledRuntimeLeavesNoOrphan kills a runtime without warning.
func TestKilledRuntimeLeavesNoOrphan(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the children of a killed parent")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	doomed := exec.Command(self, "doomed", dir)
	require.NoError(t, doomed.Start())
	var orphan int
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err == nil {
			orphan, err = strconv.Atoi(strings.TrimSpace(string(content)))
		}
		return err == nil
	}, patience, fastPeriod)
	require.False(t, gone(orphan))
	require.NoError(t, doomed.Process.Kill())
	_ = doomed.Wait() // it was killed
	require.Eventually(t, func() bool { return gone(orphan) }, patience, fastPeriod)
}

func TestListeningOnAllAddressesIsExplained(t *testing.T) {
	m := run(t, Options{}, deployment("greedy", 1, func(d *appsv1.Deployment) {
		d.Spec.Template.Labels["port"] = ""
		d.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort = 29081
		d.Spec.Template.Spec.Containers[0].Args = []string{"--port", "29081", "--address", "0.0.0.0"}
	}))
	m.await(t, func(s *Snapshot) bool {
		return len(s.Pods) == 1 &&
			strings.Contains(s.Pods[0].Why, "open on all addresses: the process must listen at "+s.Pods[0].App.String())
	})
}

func TestProblemsAreReportedAndCleared(t *testing.T) {
	image := func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "nginx:1.29" }
	m := run(t, Options{}, deployment("web", 1, image))
	origin := "running Deployment default/web"
	m.world.await(t, func() bool { return len(m.world.reports[origin]) > 0 })
	m.world.mu.Lock()
	p := m.world.reports[origin][0]
	m.world.mu.Unlock()
	require.Equal(t, source.Error, p.Severity)
	require.Equal(t, "web.yaml:1", p.Origin)
	require.Equal(t, "spec.template.spec.containers[0].image", p.Path)
	require.Equal(t, "nginx:1.29", p.Value)
	s := m.await(t, func(s *Snapshot) bool { return len(s.Pods) == 1 })
	require.Equal(t, Pending, s.Pods[0].State)

	m.source.Send(context.Background(), deployment("web", 1, nil))
	m.world.await(t, func() bool { return len(m.world.reports[origin]) == 0 })
	m.await(t, (*Snapshot).Ready)
}

func TestLoadBalancerStaysWhileGatewaysChange(t *testing.T) {
	change := service("web")
	s := change.Object.(*corev1.Service)
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports[0].Port, s.Spec.Ports[0].TargetPort.IntVal = 29080, 9080
	m := run(t, Options{}, change, deployment("web", 1, nil))
	snapshot := m.await(t, func(s *Snapshot) bool { return s.Ready() && len(s.LoadBalancers) == 1 })
	require.Equal(t, "http://127.0.0.1:29080", snapshot.LoadBalancers[0].URL())
	resp, err := http.Get(snapshot.LoadBalancers[0].URL() + "/echo")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
}

// TestNewAddressesAreTold: of a gateway that comes later, or moves to another port.
func TestNewAddressesAreTold(t *testing.T) {
	at := func(port int32) source.Change {
		change := service("web")
		s := change.Object.(*corev1.Service)
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.Ports[0].Port = port
		return change
	}
	m := run(t, Options{})
	m.await(t, func(s *Snapshot) bool { return s.Synced })
	m.source.Send(context.Background(), at(29082))
	require.Equal(t, "gateway http://127.0.0.1:29082 (default/web) opens", m.awaitNotice(t, ":29082").String())
	m.source.Send(context.Background(), at(29083))
	require.Equal(t, "gateway http://127.0.0.1:29083 (default/web) opens", m.awaitNotice(t, ":29083").String())
	require.Equal(t, "gateway http://127.0.0.1:29082 (default/web) closes", m.awaitNotice(t, ":29082").String())
}

func TestLoadBalancersBesideAnotherRuntime(t *testing.T) {
	change := service("web")
	s := change.Object.(*corev1.Service)
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports[0].Port, s.Spec.Ports[0].TargetPort.IntVal = 29081, 9080
	opened := func(s *Snapshot) bool { return s.Synced && len(s.LoadBalancers) == 1 }
	first := run(t, Options{}, change)
	second := run(t, Options{FreePorts: true}, change)
	require.Equal(t, "http://127.0.0.1:29081", first.await(t, opened).LoadBalancers[0].URL())
	require.NotEqual(t, "http://127.0.0.1:29081", second.await(t, opened).LoadBalancers[0].URL())
}

// TestTakenPortIsTold: in the state that the screen shows, with the flag that helps.
func TestTakenPortIsTold(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	change := service("web")
	s := change.Object.(*corev1.Service)
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports[0].Port = int32(netip.MustParseAddrPort(taken.Addr().String()).Port())
	closed := run(t, Options{}, change).await(t, func(s *Snapshot) bool { return len(s.ClosedPorts) == 1 }).ClosedPorts
	require.Contains(t, closed[0].Message, "address already in use")
	require.Contains(t, closed[0].Want, "lateen up --free-ports")
}

func TestSecondRuntimeOnTheSameStateIsRefused(t *testing.T) {
	m := run(t, Options{})
	m.await(t, func(s *Snapshot) bool { return s.Synced })
	other, err := New(memory.New(), m.opts)
	require.NoError(t, err)
	require.ErrorContains(t, other.Run(context.Background(), func(source.Event) {}), "in use by another lateen")
}
