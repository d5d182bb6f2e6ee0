package compile

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/testkit/heap"
)

// The memory of a class is its difference from the classes that are there. Here each class has its
// own names for the 20 services of its namespace, and shares the rest.
func TestAClassCostsItsDifference(t *testing.T) {
	const services, classes = 1000, 20
	m := &meshOf{writer: state.NewWriter(), compiler: NewCompiler(Refusals{})}
	var updates []state.Update
	for i := range services {
		updates = append(updates, serviceNumber(i, 0), endpointOf(i, 1))
	}
	m.apply(updates...)
	join := func(i int) (bytes int64) {
		before := heap.InUse().Heap
		m.compiler.Join(Facts{Proxy: scope.Proxy{
			Address:   "127.0.0.2",
			Namespace: fmt.Sprint("ns", i), Name: "p", Settings: scope.Settings{HTTPProxyPort: 15080},
		}}, func(*Member, Placement) {})
		return heap.InUse().Heap - before
	}
	first := join(0)
	var further int64
	for i := range classes {
		further += join(1 + i)
	}
	t.Logf("%d services: the first class costs %d kB, a further one %d kB", services, first/1000, further/classes/1000)
	require.Less(t, further/classes, first/40)
	runtime.KeepAlive(m)
}
