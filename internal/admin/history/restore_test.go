package history

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// objectOf is a VirtualService of shop as it is written.
func objectOf(name, route string, made time.Time) source.Change {
	c := virtualService(route)
	c.Key.Name = name
	c.Object.SetName(name)
	c.Object.SetCreationTimestamp(metav1.NewTime(made))
	c.ObservedAt = made
	return c
}

// restored is what objects were at begin, after f has reported what happened to them: with each
// call of next a second passes, and a generation comes of these changes.
func restored(t *testing.T, f func(next func(...source.Change), r *Recorder)) map[string]page.EarlierObject {
	found := map[string]page.EarlierObject{}
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(Options{Store: NewStore(1 << 20), Dropped: func() { t.Error("a report was dropped") }})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		n := 0
		f(func(changes ...source.Change) {
			var keys []source.Key
			for _, c := range changes {
				r.Arrived(c)
				keys = append(keys, c.Key)
			}
			r.Publish(Published{Generation: uint64(n), At: begin.Add(time.Duration(n) * time.Second), Changed: keys})
			n++
		}, r)
		earlier, err := r.Restore(ctx, begin, source.Key{})
		require.NoError(t, err)
		for _, o := range earlier.Objects {
			found[o.Name] = o
		}
	})
	return found
}

// TestObjectsBecomeWhatTheyWere: what was made since goes, what changed or went is what it was, and
// nothing is said of what cannot be known.
func TestObjectsBecomeWhatTheyWere(t *testing.T) {
	long := begin.Add(-time.Hour)
	gone := func(c source.Change) source.Change { return source.Change{Key: c.Key, ObservedAt: c.ObservedAt} }
	closed := objectOf("unreadable", "closed", long)
	closed.Partial = true
	machine := objectOf("machine", "a", begin.Add(2*time.Second))
	machine.Object.SetAnnotations(map[string]string{kinds.RegisteredAnnotation: "vms"})
	found := restored(t, func(next func(...source.Change), _ *Recorder) {
		next(objectOf("changed", "a", long), objectOf("gone", "a", long), objectOf("back", "a", long), closed)
		next(
			objectOf("changed", "b", long), gone(objectOf("gone", "", long)), objectOf("back", "b", long),
			objectOf("unreadable", "b", long), objectOf("made", "a", begin.Add(time.Second)),
			objectOf("in view", "a", long), objectOf("for a moment", "a", begin.Add(time.Second)), machine,
			objectOf("at once", "a", begin),
		)
		next(objectOf("changed", "c", long), objectOf("back", "a", long), gone(objectOf("for a moment", "", long)))
	})
	verbs := map[string]string{}
	for name, o := range found {
		verbs[name] = o.Verb
	}
	require.Equal(t, map[string]string{
		"changed": page.Changes, "gone": page.Created, "made": page.Deleted,
		"unreadable": page.Unknown, // nobody wrote what is in force in its place
		"in view":    page.Unknown, // it was there, and could not be read or was not asked for
		"at once":    page.Unknown, // its time has no fractions of a second
	}, verbs)
	spec := found["changed"].Spec.(map[string]any)
	require.Equal(t, []any{map[string]any{"name": "a"}}, spec["http"])
}

// TestWhatComesToNothingIsRestoredToo: of an object that changed and came to no generation it is
// known what it was, at each time.
func TestWhatComesToNothingIsRestoredToo(t *testing.T) {
	at := func(c source.Change, after time.Duration) source.Change {
		c.ObservedAt = begin.Add(after)
		return c
	}
	long := begin.Add(-time.Hour)
	for name, after := range map[string]bool{"before the next generation": false, "in it": true} {
		t.Run(name, func(t *testing.T) {
			found := restored(t, func(next func(...source.Change), r *Recorder) {
				next(objectOf("changed", "a", long), objectOf("earlier", "a", long), objectOf("gone", "a", long))
				r.Arrived(at(objectOf("earlier", "b", long), -time.Second))
				r.Arrived(at(objectOf("changed", "b", long), time.Second))
				r.Arrived(at(source.Change{Key: objectOf("gone", "", long).Key}, time.Second))
				r.Arrived(at(objectOf("refused", "a", begin.Add(time.Second)), time.Second))
				r.Arrived(at(objectOf("late", "a", long), 2*stale)) // so that the others are old
				if after {
					next(objectOf("refused", "b", begin.Add(time.Second)))
				}
			})
			verbs := map[string]string{}
			for name, o := range found {
				verbs[name] = o.Verb
			}
			require.Equal(t, map[string]string{
				"changed": page.Changes, "gone": page.Created, "refused": page.Deleted,
			}, verbs)
		})
	}
}

// TestNothingIsKnownAcrossARestart: of an object that changed after it, and not before, nobody
// knows what it was before.
func TestNothingIsKnownAcrossARestart(t *testing.T) {
	long := begin.Add(-time.Hour)
	found := restored(t, func(next func(...source.Change), r *Recorder) {
		next(objectOf("after", "a", long), objectOf("before", "a", long))
		next(objectOf("before", "b", long))
		require.NoError(t, r.Flush(context.Background()))
		r.started, r.told = false, false // as another process does
		next(objectOf("after", "b", long), objectOf("before", "b", long))
		made := objectOf("made", "c", begin.Add(2*time.Second))
		next(objectOf("after", "c", long), objectOf("before", "c", long), made)
	})
	require.Equal(t, page.Unknown, found["after"].Verb)
	require.Equal(t, page.Changes, found["before"].Verb)
	require.Equal(t, page.Unknown, found["made"].Verb)
}

// TestNumbersAreNumbers: 64-bit fields are written as an API server takes them, and other strings
// of digits stay strings.
func TestNumbersAreNumbers(t *testing.T) {
	o := &networkingv1.DestinationRule{Spec: networking.DestinationRule{
		Host: "12", TrafficPolicy: &networking.TrafficPolicy{
			LoadBalancer: &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{
				ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{
					HashAlgorithm: &networking.LoadBalancerSettings_ConsistentHashLB_RingHash_{
						RingHash: &networking.LoadBalancerSettings_ConsistentHashLB_RingHash{MinimumRingSize: 1 << 40},
					},
				},
			}},
			OutlierDetection: &networking.OutlierDetection{Interval: durationpb.New(time.Second)},
		},
		Subsets: []*networking.Subset{{Name: "34", Labels: map[string]string{"version": "56"}}},
	}}
	want := `{"host":"12","subsets":[{"labels":{"version":"56"},"name":"34"}],"trafficPolicy":{"loadBalancer":` +
		`{"consistentHash":{"ringHash":{"minimumRingSize":1099511627776}}},"outlierDetection":{"interval":"1s"}}}`
	text, err := json.Marshal(pack(o, false).specTree(kinds.DestinationRule))
	require.NoError(t, err)
	require.Equal(t, want, string(text))
}
