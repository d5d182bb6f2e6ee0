package envoyfacts

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestEndpointsMayChangeBetweenListAndCollection is what makes the form of endpoints, a list or a
// collection, a matter of each step (P18): a head with its members in one burst is taken anywhere,
// and a list ends a collection for good.
func TestEndpointsMayChangeBetweenListAndCollection(t *testing.T) {
	const head = "head"
	collection := func() adscript.Response {
		return adscript.Push(head, adscript.CollectionAssignment("c", "c/1", 0))
	}
	fact(t, "a head and its members may go out in one burst behind a new cluster", func(t *testing.T, r *adscript.Run) {
		start(r)
		give(r, adscript.EDSCluster("first", "", never), hosts(1)...)
		cds := r.Send(adscript.Push("1", adscript.EDSCluster("c", "", 0)))
		r.Send(collection())
		leds := r.Send(adscript.PushMembers("1", "c/1", hosts(4)...))
		r.AwaitAck(cds)
		r.AwaitAck(leds)
		require.Equal(t, hosts(4), r.Hosts("c"))
	})
	fact(t, "at the start, too", func(t *testing.T, r *adscript.Run) {
		r.AwaitOpen(adscript.Clusters)
		r.Send(adscript.Push("1", adscript.EDSCluster("c", "", 0)))
		r.Send(collection())
		r.Send(adscript.PushMembers("1", "c/1", hosts(4)...))
		r.AwaitOpen(adscript.Listeners)
		require.Equal(t, hosts(4), r.Hosts("c"))
	})
	fact(t, "from a list to a collection and back, each is exact, as often as one likes",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			give(r, adscript.EDSCluster("c", "", 0), hosts(4)...)
			for range 3 {
				r.Send(collection())
				r.AwaitAck(r.Send(adscript.PushMembers("1", "c/1", hosts(3)...)))
				require.Equal(t, hosts(3), r.Hosts("c"))
				r.Send(adscript.Push("list", adscript.Assignment("c", hosts(4)...)))
				r.Send(collection())
				r.AwaitAck(r.Send(adscript.PushMembers("1", "c/1", hosts(2)...)))
				require.Equal(t, hosts(2), r.Hosts("c"))
				r.AwaitAck(r.Send(adscript.Push("list", adscript.Assignment("c", hosts(4)...))))
				require.Equal(t, hosts(4), r.Hosts("c"))
			}
		})
	fact(t, "a client asks for a collection before it acknowledges the head", func(t *testing.T, r *adscript.Run) {
		start(r)
		give(r, adscript.EDSCluster("c", "", 0), hosts(4)...)
		mark := r.Mark()
		r.AwaitAck(r.Send(collection()))
		said := r.Since(mark)
		require.Equal(t, adscript.Members, said[0].Type)
		require.Equal(t, adscript.Endpoints, said[1].Type)
		require.Equal(t, hosts(4), r.Hosts("c"), "until the members come")
	})
	fact(t, "who is cut off between a head and its members reports the head, and a list sets it right",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			give(r, adscript.EDSCluster("c", "", 0), hosts(4)...)
			r.AwaitAck(r.Send(collection()))
			r.Reconnect()
			require.Equal(t, map[string]string{"c": head}, r.AwaitOpen(adscript.Endpoints).InitialVersions)
			r.AwaitAck(r.Send(adscript.Push("list", adscript.Assignment("c", hosts(3)...))))
			require.Equal(t, hosts(3), r.Hosts("c"))
		})
	fact(t, "a cluster that warms takes a list, whether its new form has had a head or not",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			c := adscript.EDSCluster("c", "", 0)
			giveCollection(r, c, "c/1", hosts(4)...)
			cds := r.Send(adscript.Push("2", changed(c)))
			r.Send(adscript.Push("list", adscript.Assignment("c", hosts(3)...)))
			r.AwaitAck(cds)
			require.Equal(t, hosts(3), r.Hosts("c"))
			r.Send(collection())
			r.AwaitAck(r.Send(adscript.PushMembers("1", "c/1", hosts(2)...)))
			require.Equal(t, hosts(2), r.Hosts("c"))

			cds = r.Send(adscript.Push("3", c))
			r.Send(collection())
			r.Settle()
			require.False(t, r.Answered(cds))
			r.Send(adscript.Push("list", adscript.Assignment("c", hosts(3)...)))
			r.AwaitAck(cds)
			require.Equal(t, hosts(3), r.Hosts("c"))
		})
	fact(t, "a head beside a refused list is taken, and not reported: it goes by itself",
		func(t *testing.T, r *adscript.Run) {
			start(r)
			give(r, adscript.EDSCluster("other", "", never), hosts(1)...)
			giveCollection(r, adscript.EDSCluster("c", "", never), "c/1", hosts(3)...)
			r.AwaitAck(r.Send(adscript.Push("sealed", adscript.CollectionAssignment("c", "c/1", soon))))
			r.AwaitNack(r.Send(adscript.Push("open", adscript.CollectionAssignment("c", "c/1", soon),
				adscript.Assignment("other", "no-address"))))
			r.AwaitAck(r.Send(adscript.Removal(adscript.Members, adscript.Collection("c/1")+hosts(3)[0])))
			require.Equal(t, hosts(3)[1:], r.Hosts("c"))
			r.Reconnect()
			require.Equal(t, "sealed", r.AwaitOpen(adscript.Endpoints).InitialVersions["c"])
		})
}
