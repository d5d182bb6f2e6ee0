package local

import (
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

func TestExpandReplacesVariables(t *testing.T) {
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"A": "1", "B": "$(A)", "EMPTY": ""}[name]
		return v, ok
	}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "1", "x$(A)y$(A)": "x1y1", "$(B)": "$(A)", "$(EMPTY)": "",
		"$(NONE)": "$(NONE)", "$$(A)": "$(A)", "$$$(A)": "$1", "$A": "$A", "$(A": "$(A", "a$": "a$", "$$": "$",
	} {
		require.Equal(t, want, expand(in, lookup), in)
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("$(A)$$(A)$")
	f.Fuzz(func(t *testing.T, s string) {
		out := expand(s, func(string) (string, bool) { return "", false })
		require.LessOrEqual(t, len(out), len(s))
		if !strings.Contains(s, "$$") {
			require.Equal(t, s, out)
		}
	})
}

func TestEnvironment(t *testing.T) {
	yes := true
	in := envInputs{
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{ServiceAccountName: "web", NodeName: "local"},
		},
		addrs: addressesOf(4), sidecar: true, environ: []string{"PATH=/bin", "SECRET=x"},
		services: map[string]*corev1.Service{
			"my-db": {Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
				{Name: "mysql", Port: 3306},
				{Name: "http-admin", Port: 80},
			}}},
			"web": {Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}},
		},
		configMaps: map[string]*corev1.ConfigMap{"c": {Data: map[string]string{"k": "v"}}},
	}
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	key := func(name, key string, optional *bool) *corev1.EnvVarSource {
		s := &corev1.ConfigMapKeySelector{Key: key, Optional: optional}
		s.Name = name
		return &corev1.EnvVarSource{ConfigMapKeyRef: s}
	}
	all := corev1.EnvFromSource{Prefix: "C_", ConfigMapRef: &corev1.ConfigMapEnvSource{}}
	all.ConfigMapRef.Name = "c"
	env, problems := containerEnv(in, &corev1.Container{
		EnvFrom: []corev1.EnvFromSource{all},
		Env: []corev1.EnvVar{
			{Name: "A", Value: "a"}, {Name: "B", Value: "$(A)/$(C_k)/$(LATER)"}, {Name: "LATER", Value: "x"},
			{Name: "LABEL", ValueFrom: field("metadata.labels['app']")}, {Name: "IP", ValueFrom: field("status.podIP")},
			{Name: "ACCOUNT", ValueFrom: field("spec.serviceAccountName")},
			{Name: "KEY", ValueFrom: key("c", "k", nil)},
			{Name: "ABSENT", ValueFrom: key("c", "none", &yes)}, {Name: "BAD", ValueFrom: key("c", "none", nil)},
			{Name: "WORSE", ValueFrom: field("spec.containers")},
		},
	})
	for name, want := range map[string]string{
		"PATH": "/bin", "A": "a", "B": "a/v/$(LATER)", "LABEL": "web", "IP": "127.32.0.5", "ACCOUNT": "web", "KEY": "v",
		"HTTP_PROXY": "http://127.96.0.5:15080", "LATEEN_APP_ADDRESS": "127.64.0.5", "MY_DB_SERVICE_HOST": "127.96.0.5",
		"MY_DB_SERVICE_PORT": "3306", "MY_DB_SERVICE_PORT_MYSQL": "3306", "HOSTNAME": "web-1", "NO_PROXY": "",
	} {
		got, ok := env.lookup(name)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []string{"SECRET", "ABSENT", "BAD", "WEB_SERVICE_HOST", "MY_DB_SERVICE_PORT_HTTP_ADMIN"} {
		_, ok := env.lookup(name)
		require.False(t, ok, name)
	}
	require.Len(t, problems, 2)
	require.Equal(t, "env[8].valueFrom.configMapKeyRef.key", problems[0].path)
	require.Equal(t, "one of k", problems[0].want)
	require.Equal(t, "env[9].valueFrom.fieldRef.fieldPath", problems[1].path)
}

type claimed struct{ bool }

func (c *claimed) Close() error { c.bool = false; return nil }

func TestAddresses(t *testing.T) {
	now := time.Unix(0, 0)
	a := newAllocator(30 * time.Second)
	var refuse func(addresses) bool
	a.claim = func(at addresses, _ []int32) (io.Closer, error) {
		if refuse != nil && refuse(at) {
			return nil, errors.New("bind: address already in use")
		}
		return &claimed{true}, nil
	}
	first, err := a.take("default/web", nil, now)
	require.NoError(t, err)
	require.Equal(t, first.Pod.AsSlice()[2:], first.App.AsSlice()[2:])
	second, err := a.take("default/web", nil, now)
	require.NoError(t, err)
	require.NotEqual(t, first, second, "in use")

	a.release(first, now)
	third, err := a.take("default/web", nil, now.Add(29*time.Second))
	require.NoError(t, err)
	require.NotEqual(t, first, third, "cooling down")
	again, err := a.take("default/web", nil, now.Add(30*time.Second))
	require.NoError(t, err)
	require.Equal(t, first, again)

	refuse = func(at addresses) bool { return at == addressesOf((first.slot+3)%slots) }
	fourth, err := a.take("default/web", nil, now)
	require.NoError(t, err)
	require.Equal(t, (first.slot+4)%slots, fourth.slot, "what cannot be bound is passed over")
	refuse = func(addresses) bool { return true }
	_, err = a.take("default/web", nil, now)
	require.ErrorContains(t, err, "no free loopback address: bind: address already in use")
}

func TestAddressesAreNeverSpecial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := addressesOf(uint16(rapid.IntRange(0, slots-1).Draw(t, "slot")))
		last := a.Pod.As4()[3]
		require.True(t, a.Pod.IsLoopback() && a.App.IsLoopback() && a.Outbound.IsLoopback())
		require.True(t, last > 0 && last < 255)
	})
}

// TestRolloutKeepsServing plays a roll-out in random order: it ends where it should, never takes
// more pods than allowed, and never has fewer ready pods than it must.
func TestRolloutKeepsServing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rollout{
			hash:     "new",
			replicas: rapid.IntRange(0, 6).Draw(t, "replicas"),
			surge:    rapid.IntRange(1, 3).Draw(t, "surge"),
		}
		for i := range rapid.IntRange(0, 6).Draw(t, "old") {
			r.have = append(r.have, replica{ordinal: i, hash: "old", ready: rapid.Bool().Draw(t, "ready")})
		}
		floor := min(r.replicas, ready(r.have))
		next := 100
		step := func() (moved bool) {
			start, stop := planRollout(r)
			for range start {
				r.have = append(r.have, replica{ordinal: next, hash: "new"})
				next++
			}
			for _, s := range stop {
				i := slices.Index(r.have, s)
				require.GreaterOrEqual(t, i, 0)
				r.have = slices.Delete(r.have, i, i+1)
			}
			return start+len(stop) > 0
		}
		for {
			moved := step()
			require.GreaterOrEqual(t, ready(r.have), floor)
			var waiting []int
			for i, p := range r.have {
				if !p.ready {
					waiting = append(waiting, i)
				}
			}
			if len(waiting) > 0 {
				r.have[rapid.SampledFrom(waiting).Draw(t, "gets ready")].ready = true
			} else if !moved {
				break
			}
		}
		require.Len(t, r.have, r.replicas)
		for _, p := range r.have {
			require.Equal(t, "new", p.hash)
		}
	})
}

func TestRolloutSurge(t *testing.T) {
	old := replica{hash: "old", ready: true}
	start, stop := planRollout(rollout{
		replicas: 2,
		surge:    1,
		hash:     "new",
		have:     []replica{old, {ordinal: 1, hash: "old", ready: true}},
	})
	require.Equal(t, 1, start)
	require.Empty(t, stop)
	start, stop = planRollout(rollout{replicas: 2, surge: 1, hash: "new", recreate: true, have: []replica{old}})
	require.Zero(t, start)
	require.Equal(t, []replica{old}, stop)
	start, _ = planRollout(rollout{
		replicas: 2,
		hash:     "new",
		recreate: true,
		have:     []replica{{hash: "old", terminating: true}},
	})
	require.Zero(t, start)
}

func TestEndpointSlices(t *testing.T) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web")}},
		},
	}
	newBackend := func(name, ip string, port int32, b backend) backend {
		b.pod = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default",
				Name:      name,
				Labels:    map[string]string{"app": "web", "istio-locality": "r.z.s"},
			},
			Status: corev1.PodStatus{PodIP: ip},
		}
		b.pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: port}}}}
		return b
	}
	require.Len(t, endpointSlices(s, nil), 1, "a Service without pods has an empty slice")

	got := endpointSlices(s, []backend{
		newBackend("d", "127.32.0.4", 9090, backend{ready: true}),
		newBackend("c", "127.32.0.3", 8080, backend{ready: true, closed: []int32{8080}}),
		newBackend("b", "127.32.0.2", 8080, backend{ready: true, terminating: true}),
		newBackend("a", "127.32.0.1", 8080, backend{ready: true}),
		newBackend("pending", "", 8080, backend{}),
	})
	require.Len(t, got, 2, "one for each number of the named port")
	require.Equal(t, "web-local", got[0].Name)
	require.Equal(t, "web-local-2", got[1].Name)
	require.Equal(t, "web", got[0].Labels["kubernetes.io/service-name"])
	require.EqualValues(t, 8080, *got[0].Ports[0].Port)
	var states []string
	for _, e := range got[0].Endpoints {
		state := e.TargetRef.Name + " " + *e.Zone
		if *e.Conditions.Ready {
			state += " ready"
		}
		if *e.Conditions.Serving {
			state += " serving"
		}
		if *e.Conditions.Terminating {
			state += " terminating"
		}
		states = append(states, state)
	}
	require.Equal(t, []string{"a z ready serving", "b z serving terminating", "c z"}, states)

	s.Spec.Selector = nil
	require.Empty(t, endpointSlices(s, nil))
}

func TestProbeNeedsConsecutiveResults(t *testing.T) {
	p := probe{success: 2, failure: 3}
	var j probeState
	var states []bool
	for _, good := range []bool{true, false, true, true, false, false, true, false, false, false} {
		j.record(good, p)
		states = append(states, j.healthy)
	}
	require.Equal(t, []bool{false, false, false, true, true, true, true, true, true, false}, states)
}

func TestClosedPorts(t *testing.T) {
	start := time.Unix(100, 0)
	p := &pod{ports: map[int32]*port{}, readySince: start}
	p.want([]int32{80, 81}, start)
	p.ports[80].open = true
	closed, until := p.closedPorts([]int32{80, 81}, 10*time.Second, start.Add(time.Second))
	require.Equal(t, []int32{81}, closed)
	require.Equal(t, start.Add(10*time.Second), until)
	closed, _ = p.closedPorts([]int32{80, 81}, 10*time.Second, until)
	require.Empty(t, closed, "announced in the end")
	p.role = roleGateway
	closed, _ = p.closedPorts([]int32{80, 81}, 10*time.Second, start)
	require.Empty(t, closed, "a gateway opens what Gateways ask for")
}

func TestRoles(t *testing.T) {
	off := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"istio-injection": "disabled"}}}
	for _, c := range []struct {
		labels, annotations map[string]string
		namespace           *corev1.Namespace
		want                podRole
	}{
		{want: roleSidecar},
		{labels: map[string]string{"sidecar.istio.io/inject": "false"}, want: roleBare},
		{annotations: map[string]string{"sidecar.istio.io/inject": "false"}, want: roleBare},
		{namespace: off, want: roleBare},
		{namespace: off, labels: map[string]string{"sidecar.istio.io/inject": "true"}, want: roleSidecar},
		{annotations: map[string]string{"inject.istio.io/templates": "gateway"}, want: roleGateway},
	} {
		meta := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.labels, Annotations: c.annotations}}
		require.Equal(t, c.want, roleOf(meta, c.namespace), "%+v", c)
	}
}

func TestTokens(t *testing.T) {
	tokens := NewTokens()
	id := Identity{Namespace: "default", ServiceAccount: "web", Pod: "web-1"}
	token := tokens.issue(id)
	got, ok := tokens.Lookup(token)
	require.True(t, ok)
	require.Equal(t, id, got)
	tokens.revoke(token)
	_, ok = tokens.Lookup(token)
	require.False(t, ok)
}

func TestNamesAreStable(t *testing.T) {
	require.Equal(t, podName("web", "h", 1), podName("web", "h", 1))
	require.NotEqual(t, podName("web", "h", 1), podName("web", "h", 2))
	require.Regexp(t, `^web-h-[a-z0-9]{5}$`, podName("web", "h", 1))
}

func TestEnvoyIsIdleWithoutActiveRequests(t *testing.T) {
	idle := func(lines ...string) bool { return isIdle(strings.NewReader(strings.Join(lines, "\n"))) }
	require.True(t, idle("http.admin.downstream_rq_active: 1", "http.inbound.downstream_rq_active: 0",
		"http.inbound.downstream_cx_active: 3"))
	require.False(t, idle("http.inbound.downstream_rq_active: 2"))
	require.True(t, idle("cluster.inbound|9400||;.upstream_rq_active: 0",
		"cluster.outbound|9400||db;.upstream_rq_active: 1"))
	require.False(t, idle("cluster.inbound|9400||;.upstream_rq_active: 1"), "a TCP connection")
}

func TestRestartPolicy(t *testing.T) {
	boom := errors.New("boom")
	require.True(t, restarts("", nil))
	require.True(t, restarts(corev1.RestartPolicyOnFailure, boom))
	require.False(t, restarts(corev1.RestartPolicyOnFailure, nil))
	require.False(t, restarts(corev1.RestartPolicyNever, boom))
}

func TestOriginsOfReportsAreTheRuntimesOwn(t *testing.T) {
	require.Equal(t, "running Pod default/web", reportOrigin(source.Key{
		Kind:      kinds.Pod,
		Namespace: "default",
		Name:      "web",
	}))
}

func TestPathsAreResolvedOnce(t *testing.T) {
	t.Chdir("/")
	r, err := New(nil, Options{
		Envoy:    ".tools/envoy",
		Self:     "bin/lateen",
		StateDir: ".lateen/x",
		WorkDir:  "shop",
		XDS:      netip.MustParseAddrPort("127.0.0.1:15010"),
	})
	require.NoError(t, err)
	require.Equal(t, []string{"/.tools/envoy", "/bin/lateen", "/.lateen/x", "/shop"},
		[]string{r.opts.Envoy, r.opts.Self, r.opts.StateDir, r.opts.WorkDir})
	_, err = New(nil, Options{Envoy: "envoy", Self: "lateen", StateDir: "x"})
	require.ErrorContains(t, err, "want the control plane's address")
}
