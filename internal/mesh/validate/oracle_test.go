package validate

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
)

// Whatever changes came in whatever steps, what is said of objects is what a checker without a past
// says of all of them at once.
func TestProblemsEqualFromNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, c := meshlife.NewHistory(), newChecked()
		step := func(updates []meshlife.Update) {
			problems := c.apply(stateUpdates(updates)...)
			fresh := newChecked().apply(stateUpdates(h.Present())...)
			requireSame(t, "problems", texts(fresh), texts(problems))
			requireSame(
				t,
				"told that another is for the same workloads",
				notInForce(h.Present()),
				toldNotInForce(problems),
			)
		}
		step(h.Begin(t))
		for range rapid.SampledFrom([]int{1, 4, 12, 16}).Draw(t, "steps") {
			updates := h.Next(t).Updates
			for range rapid.SampledFrom([]int{0, 0, 2, 6, 12}).Draw(t, "in one batch") {
				updates = append(updates, h.Next(t).Updates...)
			}
			step(updates)
		}
	})
}

func stateUpdates(updates []meshlife.Update) []state.Update {
	var list []state.Update
	for _, u := range updates {
		list = append(list, state.Update{Key: u.Key, Objects: u.Objects})
	}
	return list
}

func requireSame(t *rapid.T, what string, want, got []string) {
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (- from nothing, + step by step):\n%s", what, diff)
	}
}

func texts(problems []source.Problem) []string {
	list := []string{}
	for _, p := range problems {
		list = append(list, p.String()+" "+p.Want)
	}
	return list
}

// toldNotInForce are the objects of which the problems say that another one is for the same
// workloads.
func toldNotInForce(problems []source.Problem) []string {
	told := []string{}
	for _, p := range problems {
		if strings.Contains(p.Message, "is for the same workloads") {
			told = append(told, p.Object.String())
		}
	}
	slices.Sort(told)
	return told
}

// notInForce are the Sidecars, PeerAuthentications, Telemetries and ProxyConfigs for the
// workloads of one that comes before them.
func notInForce(present []meshlife.Update) []string {
	type claim struct {
		kind      kinds.Kind
		namespace string
		selector  model.Labels
	}
	selectors, metas := map[*model.Meta][]model.Labels{}, []*model.Meta{}
	for _, u := range present {
		for _, o := range u.Objects {
			m := model.MetaOf(o)
			switch o := o.(type) {
			case *model.Sidecar:
				selectors[m], metas = []model.Labels{o.Selector}, append(metas, m)
			case *model.PeerAuthentication:
				selectors[m], metas = []model.Labels{o.Selector}, append(metas, m)
			case *model.Telemetry:
				metas = append(metas, m)
				if len(o.Gateways) == 0 || !o.Selector.IsEmpty() {
					selectors[m] = []model.Labels{o.Selector}
				}
				for _, name := range o.Gateways {
					selectors[m] = append(selectors[m], model.LabelsOf(map[string]string{model.GatewayNameLabel: name}))
				}
			case *model.ProxyConfig:
				selectors[m], metas = []model.Labels{o.Selector}, append(metas, m)
			}
		}
	}
	slices.SortStableFunc(metas, func(a, b *model.Meta) int { return a.Compare(b) })
	taken, out := map[claim]bool{}, []string{}
	for _, m := range metas {
		for _, selector := range selectors[m] {
			c := claim{m.Kind, m.Namespace, selector}
			if taken[c] {
				out = append(out, m.Key().String())
			}
			taken[c] = true
		}
	}
	slices.Sort(out)
	return out
}
