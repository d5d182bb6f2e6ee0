package selected

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

func configured(mesh string) source.Change {
	return source.Change{Key: source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"},
		Object: &corev1.ConfigMap{Data: map[string]string{"mesh": mesh}}}
}

func labelled(namespace, value string) source.Change {
	o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"mesh": value}}}
	return source.Change{Key: source.Key{Kind: kinds.Namespace, Name: namespace}, Object: o}
}

func service(namespace, name string) source.Change {
	key := source.Key{Kind: kinds.Service, Namespace: namespace, Name: name}
	return source.Change{Key: key, Object: &corev1.Service{}}
}

func gone(c source.Change) source.Change {
	c.Object = nil
	return c
}

const inMesh = "discoverySelectors: [{matchLabels: {mesh: \"on\"}}]"

const byName = "discoverySelectors: [{matchLabels: {kubernetes.io/metadata.name: c}}]"

// events are a source that delivers them, one after the other.
type events []source.Event

func (e events) Run(_ context.Context, sink source.Sink) error {
	for _, one := range e {
		sink(one)
	}
	return nil
}

// delivered is what has been delivered and is still there, and the reports.
func delivered(t require.TestingT, e events) (there map[source.Key]bool, reports []source.Report) {
	there = map[source.Key]bool{}
	err := New(e, "istio-system", "").Run(context.Background(), func(e source.Event) {
		for _, c := range e.Changes {
			if there[c.Key] = true; c.Object == nil {
				delete(there, c.Key)
			}
		}
		reports = append(reports, e.Reports...)
	})
	require.NoError(t, err)
	return there, reports
}

func of(changes ...source.Change) source.Event { return source.Event{Changes: changes} }

func names(there map[source.Key]bool) (all []string) {
	for k := range there {
		if k.Kind == kinds.Service {
			all = append(all, k.Namespace+"/"+k.Name)
		}
	}
	slices.Sort(all)
	return all
}

func TestNamespacesComeAndGo(t *testing.T) {
	begin := of(configured(inMesh), labelled("a", "on"), labelled("b", "off"), service("a", "x"), service("b", "y"))
	for name, c := range map[string]struct {
		then events
		want []string
	}{
		"by their labels":       {nil, []string{"a/x"}},
		"one comes":             {events{of(labelled("b", "on"))}, []string{"a/x", "b/y"}},
		"one leaves":            {events{of(labelled("a", "off"))}, nil},
		"without its object":    {events{of(gone(labelled("a", "on")))}, nil},
		"leaves with a removal": {events{of(labelled("a", "off"), gone(service("a", "x")))}, nil},
		"comes with a change":   {events{of(service("b", "z"), labelled("b", "on"))}, []string{"a/x", "b/y", "b/z"}},
		"a new one by its name": {
			events{of(service("c", "z"), configured(byName))},
			[]string{"c/z"},
		},
		"no selectors":   {events{of(configured("{}"))}, []string{"a/x", "b/y"}},
		"no mesh config": {events{of(gone(configured("")))}, []string{"a/x", "b/y"}},
	} {
		t.Run(name, func(t *testing.T) {
			there, _ := delivered(t, append(events{begin}, c.then...))
			require.Equal(t, c.want, names(there))
			require.Equal(t, name != "no mesh config", there[configured("").Key], "it is read in any case")
		})
	}
}

func TestASelectorThatCannotBeReadSelectsAll(t *testing.T) {
	there, reports := delivered(t, events{of(
		configured("discoverySelectors: [{matchExpressions: [{key: a, operator: Like}]}]"), service("a", "x"),
	)})
	require.Equal(t, []string{"a/x"}, names(there))
	require.Len(t, reports, 1)
	require.Contains(t, reports[0].Problems[0].String(), "all namespaces are in the mesh")
}

// However objects, labels and selectors change: what is delivered in the end is what is there and
// of a namespace that is selected.
func TestWhatIsDeliveredIsSelected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all events
		objects, on, selects := map[source.Key]bool{}, map[string]bool{}, false
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			var e source.Event
			for range rapid.IntRange(1, 4).Draw(t, "changes") {
				namespace := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace")
				flip := rapid.Bool().Draw(t, "flip")
				switch rapid.IntRange(0, 4).Draw(t, "what") {
				case 0:
					selects = flip
					e.Changes = append(e.Changes, configured(map[bool]string{true: inMesh, false: "{}"}[flip]))
				case 1:
					on[namespace] = flip
					e.Changes = append(e.Changes, labelled(namespace, map[bool]string{true: "on", false: "off"}[flip]))
				default:
					c := service(namespace, fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "name")))
					if objects[c.Key] = true; flip {
						delete(objects, c.Key)
						c = gone(c)
					}
					e.Changes = append(e.Changes, c)
				}
			}
			all = append(all, e)
		}
		want := maps.Clone(objects)
		maps.DeleteFunc(want, func(k source.Key, _ bool) bool { return selects && !on[k.Namespace] })
		there, _ := delivered(t, all)
		require.Equal(t, names(want), names(there))
	})
}
