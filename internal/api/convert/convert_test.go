package convert

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestEqualObjectsGiveEqualValues converts a copy of each object of testdata a second time: the
// values are equal, and what stands in input structs of translation are the same pointers.
func TestEqualObjectsGiveEqualValues(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	converter, shared := New(Options{}), 0
	for _, file := range cases {
		for _, d := range documents(t, file) {
			first := converter.Convert(change(d), model.DefaultMesh())
			d.Object = copied(t, d.Object)
			second := converter.Convert(change(d), model.DefaultMesh())
			require.Equal(t, first, second, d.Key)
			for i := range first.Objects {
				require.Equal(t, model.Fingerprint(first.Objects[i]), model.Fingerprint(second.Objects[i]))
				shared += requireShared(t, first.Objects[i], second.Objects[i])
			}
			runtime.KeepAlive(first)
		}
	}
	require.Greater(t, shared, 50, "pointers that were compared")
}

// copied is a deep copy of an object by way of its JSON.
func copied(t *testing.T, o metav1.Object) metav1.Object {
	data, err := json.Marshal(o)
	require.NoError(t, err)
	fresh := reflect.New(reflect.TypeOf(o).Elem()).Interface().(metav1.Object)
	require.NoError(t, json.Unmarshal(data, fresh))
	return fresh
}

// requireShared compares the canonical parts of two equal objects by their pointers and counts
// them.
func requireShared(t *testing.T, a, b Object) int {
	n := 0
	same := func(x, y any) {
		n++
		require.Same(t, x, y)
	}
	switch a := a.(type) {
	case *model.VirtualService:
		b := b.(*model.VirtualService)
		for i, route := range a.HTTP {
			same(route, b.HTTP[i])
		}
		for i, route := range a.TLS {
			same(route, b.TLS[i])
		}
		for i, route := range a.TCP {
			same(route, b.TCP[i])
		}
	case *model.DestinationRule:
		b := b.(*model.DestinationRule)
		if a.Policy != nil {
			same(a.Policy, b.Policy)
		}
		for i, s := range a.Subsets {
			if s.Policy != nil {
				same(s.Policy, b.Subsets[i].Policy)
			}
		}
	case *model.MeshConfig:
		same(a.Retries, b.(*model.MeshConfig).Retries)
	}
	return n
}

// TestRoutesAreSharedAcrossObjects: the same route in another VirtualService, with another route
// before it, and the same condition in another route.
func TestRoutesAreSharedAcrossObjects(t *testing.T) {
	converter := New(Options{})
	one := virtual(t, converter, "one", `{"hosts":["a"],"http":[
		{"match":[{"uri":{"prefix":"/x"}}],"route":[{"destination":{"host":"a"}}]},
		{"timeout":"-1s","route":[{"destination":{"host":"a"}}]}]}`)
	two := virtual(t, converter, "two", `{"hosts":["b"],"http":[
		{"match":[{"uri":{"prefix":"/x"}}],"route":[{"destination":{"host":"b"}}]},
		{"match":[{"uri":{"prefix":"/x"}}],"route":[{"destination":{"host":"a"}}]},
		{"timeout":"-1s","route":[{"destination":{"host":"a"}}]}]}`)
	require.Same(t, one.HTTP[0], two.HTTP[1])
	require.NotSame(t, one.HTTP[0], two.HTTP[0])
	require.Same(t, one.HTTP[0].Matches[0], two.HTTP[0].Matches[0])
	require.Same(t, one.HTTP[1], two.HTTP[2], "a broken route that stands elsewhere")
}

// TestHashPoliciesAreShared: virtual hosts name them in their inputs.
func TestHashPoliciesAreShared(t *testing.T) {
	const hash = `"trafficPolicy":{"loadBalancer":{"consistentHash":{"httpHeaderName":"x-user"}}}`
	converter := New(Options{})
	one := converter.Convert(written(t, kinds.DestinationRule, "one", `{"host":"a",`+hash+`}`), model.DefaultMesh())
	two := converter.Convert(written(t, kinds.DestinationRule, "two", `{"host":"b",`+hash+`}`), model.DefaultMesh())
	a, b := one.Objects[0].(*model.DestinationRule), two.Objects[0].(*model.DestinationRule)
	require.Same(t, a.Policy, b.Policy)
	require.NotNil(t, a.Policy.LB.Hash)
	require.Same(t, a.Policy.LB.Hash, b.Policy.LB.Hash)
}

func TestDeletionGivesNothing(t *testing.T) {
	result := New(Options{}).Convert(
		source.Change{Key: source.Key{Kind: kinds.Service, Namespace: "a", Name: "b"}}, model.DefaultMesh(),
	)
	require.Equal(t, Result{}, result)
}

func virtual(t *testing.T, c *Converter, name, spec string) *model.VirtualService {
	result := c.Convert(written(t, kinds.VirtualService, name, spec), model.DefaultMesh())
	require.Len(t, result.Objects, 1)
	return result.Objects[0].(*model.VirtualService)
}

func written(t *testing.T, kind kinds.Kind, name, spec string) source.Change {
	object := kind.NewObject()
	require.NoError(t, json.Unmarshal([]byte(`{"spec":`+spec+`}`), object))
	object.SetNamespace("default")
	object.SetName(name)
	return source.Change{Key: source.Key{Kind: kind, Namespace: "default", Name: name}, Object: object}
}

// TestUnreadyEndpointsAreKeptOnDemand reads the conditions of testdata as
// PILOT_SEND_UNHEALTHY_ENDPOINTS wants them.
func TestUnreadyEndpointsAreKeptOnDemand(t *testing.T) {
	d := documents(t, "testdata/slice-conditions.yaml")[0]
	slice := New(Options{Unready: true}).Convert(change(d), model.DefaultMesh()).Objects[0].(*model.EndpointSlice)
	health := map[string]model.Health{}
	for _, h := range slice.Hosts {
		health[h.Address] = h.Health
	}
	require.Equal(t, map[string]model.Health{
		"127.1.0.1": model.Healthy, "127.1.0.2": model.Healthy, "127.1.0.3": model.Unhealthy,
		"127.1.0.4": model.Draining, "127.1.0.5": model.Unhealthy,
		"127.1.0.6": model.Healthy, "127.1.0.7": model.Draining, "127.1.0.8": model.Healthy, "127.1.0.9": model.Healthy,
	}, health)
}
