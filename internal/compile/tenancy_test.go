package compile

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/draws"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// No configuration of a tenant reaches a proxy that may not see it. Each object carries a mark that
// is found again in whatever is made of it; then the bytes that each proxy gets are searched for
// the marks of objects that are not exported to it. The search knows nothing of scopes and classes.
func TestWhatIsNotExportedIsNotInTheBytes(t *testing.T) {
	tb := t
	draws.AtLeast(t, 100)
	seen := map[kinds.Kind]int{}
	rapid.Check(t, func(t *rapid.T) {
		w, c := state.NewWriter(), NewCompiler(refuseNothing(tb))
		present := map[source.Key]model.Object{}
		placed := map[*Member]Placement{}
		for _, f := range oracleProxies() {
			c.Join(f, func(m *Member, p Placement) { placed[m] = p })
		}
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			var updates []state.Update
			for range 16 {
				u := meshlife.Any(t)
				updates = append(updates, state.Update{Key: u.Key, Objects: u.Objects})
			}
			for _, u := range updates {
				delete(present, u.Key)
				for _, o := range u.Objects {
					mark(o)
					present[u.Key] = o
				}
			}
			_, d := w.Apply(updates)
			c.Advance(d, func(s Step) { follow(placed, s) })
		}
		for m, p := range placed {
			content := everything(p.State)
			for key, o := range present {
				if !bytes.Contains(content, []byte(markOf(key))) {
					continue
				}
				seen[key.Kind]++
				if !exportedTo(present, o, m.known.Proxy.Namespace) {
					t.Fatalf(
						"proxy %s of namespace %s has something of %s", m.known.Proxy.Name, m.known.Proxy.Namespace,
						key,
					)
				}
			}
		}
	})
	t.Logf("found, by kind: %v", seen)
	if testing.Short() {
		return // so few lives may lack a kind
	}
	for _, kind := range []kinds.Kind{
		kinds.ServiceEntry, kinds.VirtualService, kinds.DestinationRule, kinds.EndpointSlice,
	} {
		if seen[kind] == 0 {
			t.Errorf("no %s was ever found: its mark does not work", kind)
		}
	}
}

// markOf is a text that only the object of a key has. For those that have endpoints, it is an
// address.
func markOf(key source.Key) string {
	ns := slices.Index([]string{"default", "shop", "istio-system"}, key.Namespace)
	name := slices.Index([]string{"a", "b", "c"}, key.Name)
	switch key.Kind {
	case kinds.EndpointSlice:
		return fmt.Sprintf("127.101.%d.%d0", 10+ns, 10+name)
	case kinds.ServiceEntry:
		return fmt.Sprintf("127.102.%d.%d0", 10+ns, 10+name)
	case kinds.Service: // of one that stands for another name
		return fmt.Sprintf("127.103.%d.%d0", 10+ns, 10+name)
	}
	return fmt.Sprintf("x-%s-%s-%s", key.Kind, key.Namespace, key.Name)
}

func mark(o model.Object) {
	switch o := o.(type) {
	case *model.VirtualService:
		for _, r := range o.HTTP {
			r.Name = markOf(o.Key())
		}
	case *model.DestinationRule:
		o.Policy = &model.TrafficPolicy{LB: &model.LoadBalancer{
			Kind: model.RingHash,
			Hash: &model.HashPolicy{Header: markOf(o.Key())},
		}}
		for i := range o.Subsets {
			o.Subsets[i].Policy = o.Policy
		}
	case *model.Service:
		for i := range o.Endpoints {
			o.Endpoints[i].Address = markOf(o.Key())
		}
	case *model.EndpointSlice:
		for i := range o.Hosts {
			o.Hosts[i].Address, o.Hosts[i].Pod = markOf(o.Key()), ""
		}
	}
}

// exportedTo tells whether the proxies of a namespace may see an object; endpoints, if they may see
// their service.
func exportedTo(present map[source.Key]model.Object, o model.Object, namespace string) bool {
	switch o := o.(type) {
	case *model.VirtualService:
		return o.ExportTo.Visible(o.Namespace, namespace)
	case *model.DestinationRule:
		return o.ExportTo.Visible(o.Namespace, namespace)
	case *model.Service:
		return o.ExportTo.Visible(o.Namespace, namespace)
	case *model.EndpointSlice:
		svc := present[source.Key{Kind: kinds.Service, Namespace: o.Namespace, Name: o.Service}]
		return svc != nil && exportedTo(present, svc, namespace)
	}
	return true
}

// everything is what a state says, in one piece.
func everything(s resource.State) []byte {
	var out []byte
	for _, set := range s.Sets() {
		for r := range set.All() {
			out = append(out, r.Body()...)
		}
	}
	return out
}

// follow brings placements to where a step leaves them.
func follow(placed map[*Member]Placement, s Step) {
	for _, m := range s.Moved {
		placed[m.Member] = m.Placement
	}
	for _, changed := range s.Changed {
		for m, p := range placed {
			if p.Class == changed.Class {
				p.State = changed.State
				placed[m] = p
			}
		}
	}
}
