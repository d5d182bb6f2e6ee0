package machines

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	metav1alpha1 "istio.io/api/meta/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	networkingclient "istio.io/client-go/pkg/clientset/versioned/typed/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

var shared kubeapi.Shared

func TestMain(m *testing.M) { os.Exit(leak.Run(func() int { return shared.Run(m) })) }

// eventually bounds every wait: the machine may be busy.
const eventually = 2 * time.Minute

// soon is a grace period that is over at once, and late one that never is.
const soon, late = time.Millisecond, time.Hour

// rig is a namespace of a real API server, and the replicas that write there.
type rig struct {
	api       networkingclient.NetworkingV1Interface
	namespace string
}

func newRig(t *testing.T) *rig {
	server := shared.Server(t)
	server.InstallIstioCRDs(t)
	config := rest.CopyConfig(server.Config())
	config.QPS = -1
	api, err := networkingclient.NewForConfig(config)
	require.NoError(t, err)
	return &rig{api: api, namespace: server.Namespace(t, nil)}
}

// replica is one of several Registries.
type replica struct {
	*Registry
	metrics observe.Machines
	stop    func()
	ended   chan error // why connections were ended
}

// connect connects a machine, and waits until its entry says so.
func (r *replica) connect(t *testing.T, m Machine) *Connection {
	t.Helper()
	c, err := r.Connect(m, r.end)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.hasAccepted(m) }, eventually, time.Millisecond)
	return c
}

func (r *replica) end(err error) { r.ended <- err }

func (r *replica) hasAccepted(m Machine) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.records[m.key()]
	if rec == nil || !rec.accepted {
		return false
	}
	e, err := r.o.API.WorkloadEntries(m.Namespace).Get(context.Background(), m.key().Name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	return e.Annotations[connectedAnnotation] == rec.connectedAt.UTC().Format(timeFormat) ||
		m.Group == "" && !takesHealth(e)
}

// refused connects a machine that is refused, at once or a moment later.
func (r *replica) refused(t *testing.T, m Machine) error {
	t.Helper()
	c, err := r.Connect(m, r.end)
	if err != nil {
		return err
	}
	err = <-r.ended
	_, again := r.Connect(m, r.end)
	require.Equal(t, err, again, "it is told why when it comes again")
	c.Disconnect()
	return err
}

// replica starts a Registry for the rest of the test.
func (r *rig) replica(t *testing.T, name string, grace time.Duration, change ...func(*Options)) *replica {
	metrics := observe.New(observe.Build{Start: time.Now(), Now: time.Now}).Machines
	o := Options{
		API: r.api, Controller: name, Namespace: "istio-system", Registers: true, TakesHealth: true, Grace: grace,
		Metrics: metrics,
		Log:     slog.New(slog.DiscardHandler), Now: time.Now,
	}
	for _, c := range change {
		c(&o)
	}
	registry := New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { registry.Run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return &replica{registry, metrics, stop, make(chan error, 64)}
}

func (r *rig) group(t *testing.T, name string, spec *networking.WorkloadGroup) *networkingv1.WorkloadGroup {
	g := &networkingv1.WorkloadGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	spec.DeepCopyInto(&g.Spec)
	made, err := r.api.WorkloadGroups(r.namespace).Create(t.Context(), g, metav1.CreateOptions{})
	require.NoError(t, err)
	return made
}

// machine is one of a group.
func (r *rig) machine(group string) Machine {
	return Machine{
		Namespace: r.namespace, Account: "vm", Group: group, Address: netip.MustParseAddr("10.1.2.3"),
	}
}

func (r *rig) entry(t *testing.T, name string) *networkingv1.WorkloadEntry {
	t.Helper()
	e, err := r.api.WorkloadEntries(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return e
}

// await waits until an entry is as wanted.
func (r *rig) await(t *testing.T, name string, wanted func(*networkingv1.WorkloadEntry) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		e, err := r.api.WorkloadEntries(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && wanted(e)
	}, eventually, time.Millisecond)
}

func (r *rig) awaitGone(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := r.api.WorkloadEntries(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	}, eventually, time.Millisecond)
}

func template() *networking.WorkloadGroup {
	return &networking.WorkloadGroup{Template: &networking.WorkloadEntry{ServiceAccount: "vm"}}
}

func isDisconnected(e *networkingv1.WorkloadEntry) bool {
	return !timeOf(e, disconnectedAnnotation).IsZero() && timeOf(e, connectedAnnotation).IsZero()
}

// TestAMachineComesAndGoes: its entry is made of the group and what the node says, and is removed
// after the grace period.
func TestAMachineComesAndGoes(t *testing.T) {
	r := newRig(t)
	group := r.group(t, "vms", &networking.WorkloadGroup{
		Metadata: &networking.WorkloadGroup_ObjectMeta{
			Labels: map[string]string{"app": "group", "tier": "group"}, Annotations: map[string]string{"note": "yes"},
		},
		Template: &networking.WorkloadEntry{
			ServiceAccount: "vm", Ports: map[string]uint32{"http": 8080}, Weight: 3, Locality: "group/z",
			Labels: map[string]string{"app": "template", "tier": "template", "side": "template"},
		},
	})
	plane := r.replica(t, "a", soon)
	m := r.machine("vms")
	m.Labels = map[string]string{"app": "node", localityLabel: "r.z"}
	m.Network, m.Locality, m.Probes = "far", "r/z", true
	c := plane.connect(t, m)
	e := r.entry(t, "vms-10.1.2.3-far")
	labels := map[string]string{"app": "node", "tier": "group", "side": "template"}
	require.Equal(t, labels, e.Labels)
	require.Equal(t, labels, e.Spec.GetLabels())
	require.Equal(t, "10.1.2.3", e.Spec.GetAddress())
	require.Equal(t, "vm", e.Spec.GetServiceAccount())
	require.Equal(t, map[string]uint32{"http": 8080}, e.Spec.GetPorts())
	require.Equal(t, uint32(3), e.Spec.GetWeight())
	require.Equal(t, "r/z", e.Spec.GetLocality())
	require.Equal(t, "far", e.Spec.GetNetwork())
	require.NotEmpty(t, e.Annotations[connectedAnnotation])
	delete(e.Annotations, connectedAnnotation)
	require.Equal(t, map[string]string{
		"note": "yes", groupAnnotation: "vms", controllerAnnotation: "a", placeAnnotation: "istio-system/a",
		healthAnnotation: "true",
	}, e.Annotations)
	require.Equal(t, group.UID, metav1.GetControllerOf(e).UID)
	require.Equal(t, 1.0, testutil.ToFloat64(plane.metrics.Registered))

	c.Disconnect()
	r.awaitGone(t, e.Name)
	c.Disconnect() // which changes nothing any more
	require.Equal(t, 1.0, testutil.ToFloat64(plane.metrics.Unregistered))
	require.Eventually(t, func() bool { return testutil.ToFloat64(plane.metrics.Deleted) == 1 }, eventually,
		time.Millisecond)
	require.Zero(t, testutil.ToFloat64(plane.metrics.Errors))
	require.Eventually(t, plane.isEmpty, eventually, time.Millisecond, "what is known of machines that left")
}

func (r *replica) isEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.records) == 0 && len(r.accounts) == 0
}

// isEmptyBut reports whether so many machines are known.
func (r *replica) isEmptyBut(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.records) == n
}

// TestAMachineComesBack within the grace period: the entry stays.
func TestAMachineComesBack(t *testing.T) {
	r := newRig(t)
	r.group(t, "vms", template())
	plane := r.replica(t, "a", late)
	first := plane.connect(t, r.machine("vms"))
	before := r.entry(t, "vms-10.1.2.3")
	first.Disconnect()
	r.await(t, before.Name, isDisconnected)
	plane.connect(t, r.machine("vms"))
	after := r.entry(t, before.Name)
	require.Equal(t, before.UID, after.UID)
	require.NotContains(t, after.Annotations, disconnectedAnnotation)
	require.True(t, timeOf(after, connectedAnnotation).After(timeOf(before, connectedAnnotation)))
	require.Eventually(t, func() bool { return testutil.ToFloat64(plane.metrics.Updated) == 1 }, eventually,
		time.Millisecond, "it counts once the API server has answered, which may be after the entry is seen")
	first.Disconnect() // the old stream's end changes nothing
	require.False(t, isDisconnected(r.entry(t, before.Name)))
}

// TestAMachineGoesToAnotherReplica: the end of the old stream does not end the entry.
func TestAMachineGoesToAnotherReplica(t *testing.T) {
	r := newRig(t)
	r.group(t, "vms", template())
	a, b := r.replica(t, "a", soon), r.replica(t, "b", late)
	first := a.connect(t, r.machine("vms"))
	b.connect(t, r.machine("vms"))
	require.Equal(t, "b", r.entry(t, "vms-10.1.2.3").Annotations[controllerAnnotation])
	first.Disconnect()
	require.Eventually(t, a.isEmpty, eventually, time.Millisecond)
	e := r.entry(t, "vms-10.1.2.3")
	require.Equal(t, "b", e.Annotations[controllerAnnotation])
	require.False(t, isDisconnected(e))
}

// TestHealthGoesIntoTheStatus, beside what others write there.
func TestHealthGoesIntoTheStatus(t *testing.T) {
	r := newRig(t)
	r.group(t, "vms", template())
	plane := r.replica(t, "a", late)
	m := r.machine("vms")
	m.Probes = true
	c := plane.connect(t, m)
	name := m.key().Name
	e := r.entry(t, name)
	e.Status.Conditions = []*metav1alpha1.IstioCondition{{Type: "Accepted", Status: "True"}}
	_, err := r.api.WorkloadEntries(r.namespace).UpdateStatus(t.Context(), e, metav1.UpdateOptions{})
	require.NoError(t, err)
	for _, h := range []Health{{Healthy: true}, {Message: "connection refused"}, {Healthy: true}} {
		require.True(t, c.Report(h))
		r.await(t, name, func(e *networkingv1.WorkloadEntry) bool {
			all := e.Status.GetConditions()
			return len(all) == 2 && all[0].GetType() == "Accepted" && all[1].GetType() == "Healthy" &&
				all[1].GetStatus() == statusOf(h) && all[1].GetMessage() == h.Message &&
				all[1].GetLastTransitionTime() != nil
		})
	}
	c.Disconnect()
	require.False(t, c.Report(Health{Healthy: true}), "a stream that has ended")
}

// TestAnEntryOfSomebodysOwn is annotated while its proxy is connected and its health is wanted. Its
// health is forgotten when the proxy is gone.
func TestAnEntryOfSomebodysOwn(t *testing.T) {
	r := newRig(t)
	make := func(name, account string, annotations map[string]string) {
		e := &networkingv1.WorkloadEntry{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
		e.Spec.Address, e.Spec.ServiceAccount = "10.1.2.3", account
		_, err := r.api.WorkloadEntries(r.namespace).Create(t.Context(), e, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	make("checked", "vm", map[string]string{healthAnnotation: "true"})
	make("unchecked", "", nil)
	make("others", "other", map[string]string{healthAnnotation: "true"})
	plane := r.replica(t, "a", soon)
	named := func(name string) Machine {
		m := r.machine("")
		m.Entry = name
		return m
	}
	c := plane.connect(t, named("checked"))
	require.Equal(t, "a", r.entry(t, "checked").Annotations[controllerAnnotation])
	require.True(t, c.Report(Health{Healthy: true}))
	r.await(t, "checked", hasHealth)
	c.Disconnect()
	r.await(t, "checked", func(e *networkingv1.WorkloadEntry) bool { return isDisconnected(e) && !hasHealth(e) })

	c = plane.connect(t, named("unchecked"))
	require.True(t, c.Report(Health{Healthy: true}))
	c.Disconnect()
	require.Eventually(t, plane.isEmpty, eventually, time.Millisecond)
	require.Empty(t, r.entry(t, "unchecked").Annotations)
	require.False(t, hasHealth(r.entry(t, "unchecked")))

	err := plane.refused(t, named("others"))
	require.ErrorIs(t, err, ErrDenied)
	require.ErrorContains(t, err, `is of the service account "other", and the proxy proved to be "vm"`)
	require.ErrorIs(t, plane.refused(t, named("missing")), ErrMissing)
	require.ErrorIs(t, plane.refused(t, named("a/b")), ErrDenied)
}

// TestWhoMayNotRegister is told why, and leaves nothing behind.
func TestWhoMayNotRegister(t *testing.T) {
	r := newRig(t)
	r.group(t, "others", &networking.WorkloadGroup{Template: &networking.WorkloadEntry{ServiceAccount: "other"}})
	r.group(t, "open", &networking.WorkloadGroup{Template: &networking.WorkloadEntry{}})
	plane := r.replica(t, "a", late)
	at := func(address string) func(*Machine) {
		return func(m *Machine) { m.Address = netip.MustParseAddr(address) }
	}
	for _, c := range []struct {
		name   string
		change func(*Machine)
		is     error
		says   string
	}{
		{"another account", func(m *Machine) { m.Group = "others" }, ErrDenied, `is of the service account "other"`},
		{"no such group", func(m *Machine) { m.Group = "none" }, ErrMissing, "/none, which the proxy's metadata"},
		{"anonymous", func(m *Machine) { m.Namespace = "" }, ErrDenied, "want a token or a certificate"},
		{"this machine", at("127.0.0.1"), ErrDenied, "want the address"},
		{"mapped", at("::ffff:127.0.0.1"), ErrDenied, "want the address"},
		{"with a zone", at("2001:db8::1%eth0"), ErrDenied, "has a zone"},
		{"no name", func(m *Machine) { m.Group = "../nodes" }, ErrDenied, "is no name of an object"},
		{"no network", func(m *Machine) { m.Network = "a/b" }, ErrDenied, "is no name of an object"},
		{"a wrong label", func(m *Machine) { m.Labels = map[string]string{"a b": "c"} }, ErrDenied, "API server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := r.machine("open")
			c.change(&m)
			err := plane.refused(t, m)
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.says)
		})
	}
	require.Eventually(t, plane.isEmpty, eventually, time.Millisecond)
	list, err := r.api.WorkloadEntries(r.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items)

	plane.mu.Lock()
	clear(plane.refusals) // as after refusedFor
	plane.mu.Unlock()
	plane.connect(t, r.machine("open"))
	other := r.machine("open")
	other.Account = "other"
	_, err = plane.Connect(other, plane.end)
	require.ErrorIs(t, err, ErrDenied, "the entry of another account at the same address")

	plane.mu.Lock()
	plane.accounts[accountOf(r.machine("open"))] = perAccount
	plane.mu.Unlock()
	full := r.machine("open")
	full.Address = netip.MustParseAddr("10.1.2.4")
	_, err = plane.Connect(full, plane.end)
	require.ErrorIs(t, err, ErrTooMany)
	require.Positive(t, testutil.ToFloat64(plane.metrics.Errors))
}

// TestNothingIsWrittenUnlessItIsWanted.
func TestNothingIsWrittenUnlessItIsWanted(t *testing.T) {
	r := newRig(t)
	plane := r.replica(t, "a", late, func(o *Options) { o.Registers, o.TakesHealth = false, false })
	for _, m := range []Machine{r.machine("vms"), {Namespace: r.namespace, Entry: "e"}, {Namespace: r.namespace}} {
		c, err := plane.Connect(m, plane.end)
		require.NoError(t, err)
		require.Nil(t, c)
		require.False(t, c.Report(Health{}))
		c.Disconnect()
	}
}

// TestWhatEndedReplicasLeftBehind is ended by the leader, and by a replica that comes back under
// its name. What a living replica keeps stays.
func TestWhatEndedReplicasLeftBehind(t *testing.T) {
	r := newRig(t)
	r.group(t, "vms", template())
	register := func(plane *replica, address string) string {
		m := r.machine("vms")
		m.Address = netip.MustParseAddr(address)
		plane.connect(t, m)
		return m.key().Name
	}
	gone, alive, before := r.replica(t, "gone", late), r.replica(t, "alive", late), r.replica(t, "leader", late)
	lost, kept, own := register(gone, "10.0.0.1"), register(alive, "10.0.0.2"), register(before, "10.0.0.3")
	gone.stop()
	before.stop()
	leader := r.replica(t, "leader", soon, func(o *Options) {
		o.Gone = func(_ context.Context, name string) (bool, error) { return name == "gone", nil }
	})
	back := register(leader, "10.0.0.4")
	foreign := r.entry(t, kept) // of a controller of another namespace, or of istiod, that is gone
	foreign.Annotations[controllerAnnotation] = "gone"
	foreign, err := r.api.WorkloadEntries(r.namespace).Update(t.Context(), foreign, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = leader.sweep(t.Context(), sweeping{})
	require.NoError(t, err)
	r.awaitGone(t, own)
	r.entry(t, lost) // only the leader ends those of others
	seen, err := leader.sweep(t.Context(), sweeping{leads: true})
	require.NoError(t, err)
	require.True(t, seen["gone"])
	require.True(t, leader.isEmptyBut(1), "at the first look its machines may be on their way to others")
	_, err = leader.sweep(t.Context(), sweeping{leads: true, before: seen})
	require.NoError(t, err)
	r.awaitGone(t, lost)
	require.Equal(t, foreign.ResourceVersion, r.entry(t, kept).ResourceVersion)
	r.entry(t, kept)
	r.entry(t, back)
}

// TestADeletedEntryComesBack while its machine is connected.
func TestADeletedEntryComesBack(t *testing.T) {
	r := newRig(t)
	r.group(t, "vms", template())
	plane := r.replica(t, "a", late)
	plane.connect(t, r.machine("vms"))
	require.NoError(t, r.api.WorkloadEntries(r.namespace).Delete(t.Context(), "vms-10.1.2.3", metav1.DeleteOptions{}))
	_, err := plane.sweep(t.Context(), sweeping{})
	require.NoError(t, err)
	r.await(t, "vms-10.1.2.3", func(*networkingv1.WorkloadEntry) bool { return true })
}

// TestWhoClaimsAnEntryFirstDoesNotKeepItsMachineOut: only one that was accepted does.
func TestWhoClaimsAnEntryFirstDoesNotKeepItsMachineOut(t *testing.T) {
	r := newRig(t)
	r.group(t, "vms", template())
	plane := New(Options{
		API: r.api, Registers: true, Now: time.Now,
		Metrics: observe.New(observe.Build{Start: time.Now(), Now: time.Now}).Machines,
	})
	claims := r.machine("vms")
	claims.Account = "other"
	ended := make(chan error, 1)
	first, err := plane.Connect(claims, func(err error) { ended <- err })
	require.NoError(t, err)
	_, err = plane.Connect(r.machine("vms"), nil)
	require.NoError(t, err)
	require.ErrorIs(t, <-ended, ErrDenied)
	first.Disconnect() // which is not the record's any more
	require.True(t, plane.records[claims.key()].disconnectedAt.IsZero())
	require.Equal(t, 1, plane.accounts[accountOf(r.machine("vms"))])
	require.Zero(t, plane.accounts[accountOf(claims)])
	plane.queue.ShutDown()
}

// TestARefusedProxyEndsNobodysEntry: after a restart of the replica it comes before the entry's own
// machine.
func TestARefusedProxyEndsNobodysEntry(t *testing.T) {
	r := newRig(t)
	r.group(t, "vms", template())
	before := r.replica(t, "a", late)
	before.connect(t, r.machine("vms"))
	before.stop()
	plane := r.replica(t, "a", soon)
	claims := r.machine("vms")
	claims.Account = "other"
	require.ErrorIs(t, plane.refused(t, claims), ErrDenied)
	require.Eventually(t, plane.isEmpty, eventually, time.Millisecond)
	require.False(t, isDisconnected(r.entry(t, "vms-10.1.2.3")))
	plane.connect(t, r.machine("vms"))
}

// TestTheGroupMayComeLater than its machines: they are told, and are in when it is there.
func TestTheGroupMayComeLater(t *testing.T) {
	r := newRig(t)
	plane := r.replica(t, "a", late)
	_, err := plane.Connect(r.machine("vms"), plane.end)
	require.NoError(t, err)
	require.ErrorIs(t, <-plane.ended, ErrMissing)
	r.group(t, "vms", template())
	plane.queue.Add(r.machine("vms").key()) // as after refusedFor
	require.Eventually(t, func() bool { return plane.hasAccepted(r.machine("vms")) }, eventually, time.Millisecond)
}
