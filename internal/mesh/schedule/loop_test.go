package schedule_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/mesh/validate"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// rig is a loop that notes what it publishes, in a bubble of fake time.
type rig struct {
	loop  *schedule.Loop
	sink  source.Sink
	start time.Time
	took  time.Duration // from a generation to the proxies; negative is for ever
	moves time.Duration // it comes to more of them so often before; 0 is never
	proxy time.Duration // what it takes of a proxy's main thread

	// mu guards what follows: the bubble's clock orders the loop after the test, and the race
	// detector does not know of it.
	mu    sync.Mutex
	noted []publication
	seen  []*state.Delta
}

func (r *rig) published() []publication {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.noted)
}

func (r *rig) deltas() []*state.Delta {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

type publication struct {
	at         time.Duration
	generation uint64
	cause      string
	services   int
}

func newRig(t *testing.T, debounce schedule.Debounce, options ...func(*schedule.LoopOptions)) *rig {
	r := &rig{start: time.Now()}
	log := slog.New(slog.DiscardHandler)
	o := schedule.LoopOptions{
		Converter: convert.New(convert.Options{}), Mesh: model.DefaultMesh(), Debounce: debounce,
		Publish: func(snap *state.Snapshot, d *state.Delta) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.seen = append(r.seen, d)
			r.noted = append(
				r.noted,
				publication{time.Since(r.start), snap.Generation, d.Cause(), snap.Counts().Services},
			)
			for after := r.moves; r.moves > 0 && (r.took < 0 || after < r.took) &&
				after < time.Minute; after += r.moves {
				time.AfterFunc(after, func() { r.loop.Progress(schedule.Delivery{Generation: snap.Generation}) })
			}
			if r.took >= 0 {
				done := schedule.Delivery{Generation: snap.Generation, NearlyAll: true, Proxy: r.proxy}
				time.AfterFunc(r.took, func() { r.loop.Progress(done) })
			}
		},
		Batched:  func(schedule.BatchStats) {},
		Arrived:  func(source.Change) {},
		Problems: validate.NewProblemStore(log, nil),
		Logger:   log,
	}
	for _, set := range options {
		set(&o)
	}
	r.loop = schedule.NewLoop(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.loop.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	r.sink = r.loop.Sink(ctx)
	return r
}

// advance lets the bubble's fake clock go on, and waits for what it sets off.
func advance(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // no real time passes
	synctest.Wait()
}

var istio = schedule.Debounce{After: 100 * time.Millisecond, Max: 10 * time.Second, Endpoints: true}

func service(name string, port int32) source.Change {
	return memory.Upsert(kinds.Service, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: port}}},
	})
}

// alias is a Service that is whole without endpoints.
func alias(name string, port int32) source.Change {
	c := service(name, port)
	spec := &c.Object.(*corev1.Service).Spec
	spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "example.org"
	return c
}

func slice(name, address string) source.Change {
	port, portName := int32(8080), "http"
	return memory.Upsert(kinds.EndpointSlice, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{"kubernetes.io/service-name": "a"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
	})
}

func TestNothingIsPublishedBeforeTheSourceIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, istio)
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}})
		advance(time.Minute)
		require.Empty(t, r.published())
		r.sink(source.Event{Synced: true})
		synctest.Wait()
		require.Equal(t, []publication{{time.Minute, 1, "Service default/a", 1}}, r.published())
	})
}

func TestAnEmptyMeshIsAStateToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, istio)
		r.sink(source.Event{Synced: true})
		synctest.Wait()
		require.Equal(t, []publication{{0, 1, "nothing", 0}}, r.published())
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}})
		advance(time.Second)
		require.Equal(t, publication{100 * time.Millisecond, 2, "Service default/a", 1}, r.published()[1])
	})
}

func TestChangesAreGatheredUntilTheyAreQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, istio)
		r.sink(source.Event{Synced: true})
		for i := range 5 {
			r.sink(source.Event{Changes: []source.Change{service("a", int32(80+i))}})
			advance(60 * time.Millisecond)
		}
		advance(time.Second)
		require.Len(t, r.published(), 2)
		require.Equal(t, 340*time.Millisecond, r.published()[1].at, "100 ms after the last of them")
	})
}

func TestNoChangeWaitsLongerThanTheMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, schedule.Debounce{After: 100 * time.Millisecond, Max: 300 * time.Millisecond, Endpoints: true})
		r.sink(source.Event{Synced: true})
		synctest.Wait()
		for i := range 10 {
			r.sink(source.Event{Changes: []source.Change{service("a", int32(80+i))}})
			advance(50 * time.Millisecond)
		}
		require.GreaterOrEqual(t, len(r.published()), 2)
		require.Equal(t, 300*time.Millisecond, r.published()[1].at)
	})
}

func TestEndpointsNeedNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, schedule.Debounce{After: time.Second, Max: 10 * time.Second})
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		r.sink(source.Event{Changes: []source.Change{slice("a-1", "127.0.0.9")}})
		synctest.Wait()
		require.Len(t, r.published(), 2)
		require.Equal(t, time.Duration(0), r.published()[1].at)
	})
}

func TestEqualContentMakesNoGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, istio)
		r.sink(source.Event{Changes: []source.Change{service("a", 80), slice("a-1", "127.0.0.9")}, Synced: true})
		advance(time.Second)
		r.sink(source.Event{Changes: []source.Change{service("a", 80), slice("a-1", "127.0.0.9")}})
		advance(time.Second)
		require.Len(t, r.published(), 1)
	})
}

func TestFlushAnswersWithTheGenerationOfWhatCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, istio)
		r.sink(source.Event{Synced: true})
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}})
		generation, err := r.loop.Flush(context.Background())
		require.NoError(t, err)
		require.Equal(t, uint64(2), generation)
		again, err := r.loop.Flush(context.Background())
		require.NoError(t, err)
		require.Equal(t, generation, again)
	})
}

// TestConflictsOfNoBatchAreApplied: what a proxy that connects sees wrong is passed on at once, or
// with the batch that waits.
func TestConflictsOfNoBatchAreApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var applied atomic.Int32
		r := newRig(t, istio, func(o *schedule.LoopOptions) {
			o.Applied = func([]source.Change) { applied.Add(1) }
		})
		r.loop.Conflicted()
		synctest.Wait()
		require.Zero(t, applied.Load(), "nothing is published yet")
		r.sink(source.Event{Synced: true})
		synctest.Wait()
		require.EqualValues(t, 1, applied.Load())
		r.loop.Conflicted()
		synctest.Wait()
		require.EqualValues(t, 2, applied.Load())
		advance(time.Minute)
		r.sink(source.Event{Changes: []source.Change{routeTo("early")}})
		r.sink(source.Event{Changes: []source.Change{routeTo("late")}})
		synctest.Wait()
		before := applied.Load()
		r.loop.Conflicted()
		synctest.Wait()
		require.Equal(t, before, applied.Load(), "a batch waits")
		advance(time.Minute)
		require.Greater(t, applied.Load(), before)
	})
}

func TestAMeshConfigurationIsReadIntoWhatDependsOnIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, istio)
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
		var changes []source.Change
		for _, n := range names {
			c := service(n, 80)
			c.ObservedAt = time.Now()
			changes = append(changes, c)
		}
		r.sink(source.Event{Changes: changes, Synced: true})
		advance(time.Hour)
		mesh := memory.Upsert(kinds.ConfigMap, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "istio-system", Name: "istio",
			}, Data: map[string]string{"mesh": "defaultServiceExportTo: [.]"},
		})
		mesh.ObservedAt = time.Now()
		r.sink(source.Event{Changes: []source.Change{mesh}})
		advance(time.Second)
		require.Len(t, r.deltas(), 2)
		d := r.deltas()[1]
		require.True(t, d.Mesh)
		require.Equal(t, mesh.ObservedAt, d.Observed, "not when the services were observed")
		var changed []string
		for _, k := range d.Changed {
			changed = append(changed, k.Name)
		}
		require.Equal(t, append([]string{"istio"}, names...), changed, "each once, in a fixed order")
		require.True(t, d.Services[0].New.ExportTo.Own)
	})
}

// early is as istio, and goes at once or after 20 ms where that may be.
// defaults are those of a control plane whose variables nobody has set.
var defaults = schedule.Debounce{
	After: 100 * time.Millisecond, Early: 20 * time.Millisecond, Max: 10 * time.Second, Endpoints: true,
	Steady: 150 * time.Millisecond,
}

var early = schedule.Debounce{
	After: 100 * time.Millisecond, Early: 20 * time.Millisecond, Max: 10 * time.Second, Endpoints: true,
}

func routeTo(subset string) source.Change {
	return memory.Upsert(kinds.VirtualService, &networkingv1.VirtualService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
		Spec: networking.VirtualService{Hosts: []string{"a"}, Http: []*networking.HTTPRoute{{
			Route: []*networking.HTTPRouteDestination{
				{Destination: &networking.Destination{Host: "a", Subset: subset}},
			},
		}}},
	})
}

func subsetOf(name string) source.Change {
	return memory.Upsert(kinds.DestinationRule, &networkingv1.DestinationRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
		Spec: networking.DestinationRule{
			Host: "a", Subsets: []*networking.Subset{{Name: name, Labels: map[string]string{"version": name}}},
		},
	})
}

func TestAChangeAfterAQuietDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Synced: true})
		for i := range 8 {
			advance(time.Minute)
			at := time.Since(r.start)
			r.sink(source.Event{Changes: []source.Change{alias("a", int32(80+i))}})
			advance(time.Second)
			require.Equal(t, at, r.published()[1+i].at)
		}
	})
}

func TestTheFirstChangeAfterTheStartDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(50 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{alias("b", 80)}})
		advance(time.Second)
		require.Equal(t, 50*time.Millisecond, r.published()[1].at)
	})
}

func TestWhatFollowsTheFirstChangeWaitsForAQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Synced: true})
		advance(time.Minute)
		r.sink(source.Event{Changes: []source.Change{alias("a", 80)}})
		advance(30 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{alias("b", 80)}})
		advance(10 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{alias("c", 80)}})
		advance(time.Second)
		require.Len(t, r.published(), 3)
		require.Equal(t, time.Minute+140*time.Millisecond, r.published()[2].at)
	})
}

// The objects of an apply come one after the other, and the last of them waits for a moment alone.
func TestWhatFollowsWithinAMomentWaitsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Synced: true})
		advance(time.Minute)
		for _, name := range []string{"a", "b", "c"} {
			r.sink(source.Event{Changes: []source.Change{alias(name, 80)}})
			advance(15 * time.Millisecond)
		}
		advance(35 * time.Millisecond) // 65 after c
		r.sink(source.Event{Changes: []source.Change{alias("d", 80)}})
		advance(time.Second)
		var at []time.Duration
		for _, p := range r.published()[1:] {
			at = append(at, p.at-time.Minute)
		}
		require.Equal(t, []time.Duration{
			0, 50 * time.Millisecond, 180 * time.Millisecond,
		}, at, "what comes after the rest waits as ever")
	})
}

// "kubectl replace" deletes an object and creates it again.
func TestRemovedServiceThatReturnsIsPublishedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		r.sink(source.Event{Changes: []source.Change{memory.Delete(kinds.Service, "default", "a")}})
		advance(10 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{service("a", 81)}})
		advance(time.Second)
		require.Len(t, r.published(), 2)
		require.Equal(t, 1, r.published()[1].services)
		require.Equal(t, time.Minute+10*time.Millisecond, r.published()[1].at)
	})
}

func TestManyChangesWaitAsEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Synced: true})
		advance(time.Minute)
		for i := range 20 {
			r.sink(source.Event{Changes: []source.Change{service("a", int32(80+i))}})
			advance(30 * time.Millisecond)
		}
		advance(time.Second)
		require.Len(t, r.published(), 1+1+1, "the first, and the rest in one")
		require.Equal(t, time.Minute+19*30*time.Millisecond+100*time.Millisecond, r.published()[2].at)
	})
}

func TestManyObjectsAtOnceWaitAsEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Synced: true})
		advance(time.Minute)
		var changes []source.Change
		for i := range 33 {
			changes = append(changes, alias(fmt.Sprint("s", i), 80))
		}
		r.sink(source.Event{Changes: changes})
		advance(time.Second)
		require.Equal(t, time.Minute+100*time.Millisecond, r.published()[1].at)
	})
}

// withRouteWithoutSubset is a loop that after a minute of calm got a route to a subset that there
// is none of.
func withRouteWithoutSubset(t *testing.T) *rig {
	r := newRig(t, early)
	r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
	advance(time.Minute)
	r.sink(source.Event{Changes: []source.Change{routeTo("v1")}})
	return r
}

// A route whose subset comes a moment later never goes out without it.
func TestWhatLeavesSomethingWrongWaitsForWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withRouteWithoutSubset(t)
		advance(60 * time.Millisecond)
		require.Len(t, r.published(), 1)
		r.sink(source.Event{Changes: []source.Change{subsetOf("v1")}})
		advance(time.Minute)
		require.Len(t, r.published(), 2)
		require.Equal(t, time.Minute+160*time.Millisecond, r.published()[1].at)
		require.Equal(t, "VirtualService default/a, DestinationRule default/a", r.published()[1].cause)
		require.Len(t, r.deltas()[1].VirtualServices, 1)
		require.Len(t, r.deltas()[1].DestinationRules, 1)
	})
}

// What it lacked may come with the rest of its apply.
func TestWhatIsHeldGoesWithTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withRouteWithoutSubset(t)
		advance(10 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{alias("b", 80)}}) // which does not help
		advance(20 * time.Millisecond)
		require.Len(t, r.published(), 1)
		r.sink(source.Event{Changes: []source.Change{subsetOf("v1")}})
		advance(time.Minute)
		require.Len(t, r.published(), 2)
		require.Equal(t, time.Minute+50*time.Millisecond, r.published()[1].at)
	})
}

// The rest of an apply may be only half of it as well.
func TestARestThatLeavesSomethingWrongWaitsForWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, early)
		r.sink(source.Event{Changes: []source.Change{service("a", 80)}, Synced: true})
		advance(time.Minute)
		r.sink(source.Event{Changes: []source.Change{alias("b", 80)}})
		advance(10 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{routeTo("v1")}})
		advance(time.Second)
		require.Len(t, r.published(), 3)
		require.Equal(t, time.Minute+110*time.Millisecond, r.published()[2].at)
	})
}

func TestWhatIsHeldGoesOutWhenNothingFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withRouteWithoutSubset(t)
		advance(50 * time.Millisecond)
		require.Len(t, r.published(), 1)
		advance(time.Second)
		require.Len(t, r.published(), 2)
		require.Equal(t, time.Minute+100*time.Millisecond, r.published()[1].at)
	})
}

func TestWhatIsHeldGoesOutAtTheMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withRouteWithoutSubset(t)
		for i := range 400 {
			advance(50 * time.Millisecond)
			r.sink(source.Event{Changes: []source.Change{alias("b", int32(80+i))}})
		}
		require.Equal(t, time.Minute+10*time.Second, r.published()[1].at)
	})
}

func TestFlushWaitsForWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withRouteWithoutSubset(t)
		advance(50 * time.Millisecond)
		generation, err := r.loop.Flush(context.Background())
		require.NoError(t, err)
		require.Len(t, r.published(), 2)
		require.Equal(t, generation, r.published()[1].generation)
		require.Equal(t, time.Minute+100*time.Millisecond, r.published()[1].at)
	})
}

func TestWhatIsTakenBackWhileItIsHeldIsNotPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withRouteWithoutSubset(t)
		advance(50 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{memory.Delete(kinds.VirtualService, "default", "a")}})
		advance(time.Minute)
		require.Len(t, r.published(), 1)
	})
}
