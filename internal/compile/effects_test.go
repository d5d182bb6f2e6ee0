package compile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// foreseen says what updates would change for proxies. Nothing changes by it.
func (o *oracle) foreseen(updates []meshlife.Update) Foresight {
	before := o.standing()
	_, d := o.writer.Fork().Apply(stateUpdates(updates))
	if d.IsEmpty() {
		return Foresight{}
	}
	seen := o.comp.Foresee(d)
	o.requireStanding(before)
	return seen
}

// effectTexts are how many proxies get what: the resources and their versions, and bytes.
type effectTexts map[string]int

// requireForeseen compares what was foreseen with what proxies had and have now.
func (o *oracle) requireForeseen(seen Foresight, had map[*Member]Placement) {
	got, want := effectTexts{}, effectTexts{}
	for i := range seen.Effects {
		e := &seen.Effects[i]
		got[textOfEffect(e.Changes, e.Bytes(), e.Drains())] += e.Proxies
	}
	namespaces := map[string]int{}
	for m, p := range o.placed {
		changes, bytes, drains := naiveEffect(had[m].State, p.State)
		if len(changes) > 0 {
			want[textOfEffect(changes, bytes, drains)]++
			namespaces[m.known.Proxy.Namespace]++
		}
	}
	require.Equal(o.tb, want, got)
	if len(namespaces) > 0 || len(seen.Namespaces) > 0 {
		require.Equal(o.tb, namespaces, seen.Namespaces)
	}
}

// naiveEffect compares all resources of two states.
func naiveEffect(from, to resource.State) (changes []Changed, bytes int, drains bool) {
	for typ := range resource.NumTypes {
		for was := range from.Set(typ).All() {
			if is := to.Set(typ).Get(was.Name()); is == nil {
				changes = append(changes, Changed{typ, was, nil})
				bytes += len(was.Name())
				drains = drains || typ == resource.Listener
			}
		}
		for is := range to.Set(typ).All() {
			was := from.Set(typ).Get(is.Name())
			if was != nil && was.Version() == is.Version() {
				continue
			}
			changes = append(changes, Changed{typ, was, is})
			bytes += is.Size()
			drains = drains || was != nil && typ == resource.Listener
		}
	}
	return changes, bytes, drains
}

func textOfEffect(changes []Changed, bytes int, drains bool) string {
	var lines []string
	for _, c := range changes {
		lines = append(lines, fmt.Sprint(c.Type, " ", c.Name(), versionText(c.Before), versionText(c.After)))
	}
	slices.Sort(lines)
	return fmt.Sprintln(strings.Join(lines, "\n"), bytes, drains)
}

func versionText(r *resource.Resource) string {
	if r == nil {
		return " -"
	}
	return fmt.Sprintf(" %x", r.Version())
}
