package schedule_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// What a long initial state has converted already is as if it had come at once: the last of an
// object counts, what was deleted is not there, and the mesh configuration is that of the end. Who
// is told of what was applied is told of all of Istio's kinds.
func TestALongInitialStateIsAsOneThatComesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 3000
		var told []source.Key
		var batches []int
		r := newRig(t, istio, func(o *schedule.LoopOptions) {
			o.Batched = func(b schedule.BatchStats) { batches = append(batches, b.Changes) }
			o.Applied = func(changes []source.Change) {
				for _, c := range changes {
					told = append(told, c.Key)
				}
			}
		})
		r.sink(source.Event{Changes: []source.Change{routeTo("early"), service("twice", 80), service("gone", 80)}})
		for i := range many {
			r.sink(source.Event{Changes: []source.Change{service(fmt.Sprintf("s-%d", i), 80)}})
		}
		r.sink(source.Event{Changes: []source.Change{
			routeTo("late"), service("twice", 81), {
				Key: source.Key{Kind: kinds.Service, Namespace: "default", Name: "gone"}, ObservedAt: time.Now(),
			},
			memory.Upsert(kinds.ConfigMap, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "istio-system", Name: "istio",
				}, Data: map[string]string{"mesh": "defaultServiceExportTo: [.]"},
			}),
		}})
		advance(time.Minute)
		require.Empty(t, r.published())
		for i := range many {
			r.sink(source.Event{Changes: []source.Change{service(fmt.Sprintf("s-%d", i%200), 81)}})
		}
		r.sink(source.Event{Synced: true})
		synctest.Wait()
		require.Less(
			t, batches[0], 2*many+200,
			"what changes all the time while nothing is in force is kept once; "+
				"the mesh configuration has all converted again",
		)
		require.Equal(t, []publication{{time.Minute, 1, r.published()[0].cause, many + 1}}, r.published())
		port := 0
		for _, p := range r.deltas()[0].Services {
			require.True(t, p.New.ExportTo.Own, p.New.Host)
			if p.New.Name == "twice" {
				port = int(p.New.Ports[0].Port)
			}
		}
		require.Equal(t, 81, port)
		virtual := source.Key{Kind: kinds.VirtualService, Namespace: "default", Name: "a"}
		require.Equal(t, []source.Key{virtual}, told, "once")

		r.sink(source.Event{Changes: []source.Change{service("twice", 82)}})
		advance(time.Minute)
		r.sink(source.Event{Changes: []source.Change{service("another", 80)}})
		advance(time.Minute)
		require.Equal(t, []source.Key{service("another", 80).Key}, r.deltas()[2].Changed, "the initial state is over")
	})
}

// Of an initial state that is still being read, no more objects are in memory than are converted at
// a time.
func TestWhatIsConvertedOfTheInitialStateIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, debounce := range map[string]schedule.Debounce{"as Istio": istio, "endpoints by themselves": early} {
			r := newRig(t, debounce)
			var slices []weak.Pointer[discoveryv1.EndpointSlice]
			for i := range 1000 {
				c := slice(fmt.Sprintf("a-%d", i), "127.0.0.9")
				slices = append(slices, weak.Make(c.Object.(*discoveryv1.EndpointSlice)))
				r.sink(source.Event{Changes: []source.Change{c}})
			}
			synctest.Wait()
			runtime.GC()
			kept := 0
			for _, s := range slices {
				if s.Value() != nil {
					kept++
				}
			}
			require.Less(t, kept, 200, name)
			require.Empty(t, r.published())
		}
	})
}
