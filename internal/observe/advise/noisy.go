package advise

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Costs are what changes of objects took of the control plane in a window.
type Costs struct {
	Window  float64 // seconds; 0 if nothing is known
	Objects []Cost
}

// Cost is that of an object.
type Cost struct {
	Kind, Namespace, Name string
	Changes               int
	Seconds               float64 // to convert, check and compile
}

// A namespace is noisy if its changes take at least this share of a CPU, and of what all take.
const (
	noisyCores = 0.02
	noisyShare = 0.5
)

// noisy names a namespace whose changes take most of what all take, and the object to begin with.
func (d *diagnosis) noisy() []Finding {
	if d.Costs.Window <= 0 {
		return nil
	}
	all, by := 0.0, map[string]float64{}
	for _, c := range d.Costs.Objects {
		all += c.Seconds
		by[c.Namespace] += c.Seconds
	}
	delete(by, "") // objects of the cluster, and what has no object
	if len(by) == 0 {
		return nil
	}
	name := slices.MaxFunc(slices.Sorted(maps.Keys(by)), func(a, b string) int { return cmp.Compare(by[a], by[b]) })
	cores, of := by[name]/d.Costs.Window, share(by[name], all)
	if cores < noisyCores || of < noisyShare {
		return nil
	}
	worst := d.worstOf(name)
	object := fmt.Sprintf("%s %s/%s", worst.Kind, worst.Namespace, worst.Name)
	return []Finding{{
		Summary: fmt.Sprintf("changes of the namespace %s take most of what all changes take", name),
		Evidence: []Evidence{
			{Metric: "CPU of its changes", Value: cores, Threshold: noisyCores, Unit: "cores", Off: true},
			{Metric: "share of all changes", Value: of, Threshold: noisyShare, Unit: "of all", Off: true},
			{Metric: "changes of " + object, Value: float64(worst.Changes) / d.Costs.Window, Unit: "/s"},
		},
		Effects: []Effect{{What: "CPU of changes without those of " + object, Unit: "cores",
			Before: all / d.Costs.Window, After: (all - worst.Seconds) / d.Costs.Window}},
		Remedy: Remedy{Text: calming(worst.Kind, object)},
	}}
}

// worstOf returns the most expensive object of a namespace.
func (d *diagnosis) worstOf(namespace string) (worst Cost) {
	for _, c := range d.Costs.Objects {
		if c.Namespace == namespace && (worst.Name == "" || c.Seconds > worst.Seconds) {
			worst = c
		}
	}
	return worst
}

// calming says what makes an object change less often.
func calming(kind, object string) string {
	if kind == "EndpointSlice" || kind == "Pod" {
		return object + ": its Pods come, go or turn ready all the time: look at probes, restarts and autoscaler"
	}
	return object + " is written all the time: lateen history --object says by whom; let that write several " +
		"changes at once, and nothing where nothing differs"
}
