package model

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever field of an object differs, at any depth, the object is another: an update that changes
// it alone is not lost.
func TestEveryFieldCountsInTheFingerprint(t *testing.T) {
	for _, o := range []Object{
		&Service{}, &VirtualService{}, &DestinationRule{}, &Gateway{}, &Sidecar{}, &AuthorizationPolicy{},
		&PeerAuthentication{}, &Workload{}, &WorkloadEntry{}, &Namespace{}, &Node{}, &EndpointSlice{}, &MeshConfig{},
		&Credential{}, &IngressClass{}, &RequestAuthentication{}, &KeySet{},
		&Telemetry{}, &ProxyConfig{},
		&GatewayClass{}, &KubernetesGateway{}, &AttachedRoute{}, &ReferenceGrant{}, &GatewayAPIStatus{},
		&BackendTLSPolicy{}, &BackendPolicy{}, &EnvoyFilter{}, &CertificateBundle{}, &ListenerSet{}, &ServedGateway{},
		&RootRoutes{}, &DelegateRoutes{}, &DelegationStatus{},
	} {
		full := reflect.New(reflect.TypeOf(o).Elem())
		fill(full.Elem(), 0)
		before := Fingerprint(full.Interface())
		twin := reflect.New(reflect.TypeOf(o).Elem())
		fill(twin.Elem(), 0)
		require.True(t, Equal(full.Interface(), twin.Interface()))
		leaves := 0
		eachLeaf(full.Elem(), full.Elem().Type().String(), func(path string, leaf reflect.Value) {
			leaves++
			old := reflect.ValueOf(leaf.Interface())
			for _, other := range others(leaf) {
				leaf.Set(other)
				require.NotEqual(t, before, Fingerprint(full.Interface()), path)
				require.False(t, Equal(full.Interface(), twin.Interface()), path)
			}
			leaf.Set(old)
		})
		require.Equal(t, before, Fingerprint(full.Interface()))
		require.NotZero(t, leaves)
	}
}

// opaque reports whether a value is a leaf, whatever it contains.
func opaque(v reflect.Value) bool {
	return v.Type() == reflect.TypeFor[Labels]() || v.Type() == reflect.TypeFor[Sensitive]()
}

// fill gives each slice one item, each pointer a value and labels a pod's name; TrafficPolicy holds
// itself.
func fill(v reflect.Value, depth int) {
	switch {
	case v.Type() == reflect.TypeFor[Labels]():
		v.Set(reflect.ValueOf(ofPod("db-0")))
	case depth > 12 || opaque(v):
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), depth+1)
		}
	}
}

func eachLeaf(v reflect.Value, path string, f func(string, reflect.Value)) {
	switch {
	case opaque(v):
		f(path, v)
	case v.Kind() == reflect.Pointer && !v.IsNil():
		eachLeaf(v.Elem(), path, f)
	case v.Kind() == reflect.Slice && v.Len() > 0:
		eachLeaf(v.Index(0), path+"[0]", f)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			eachLeaf(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case v.Kind() != reflect.Pointer && v.Kind() != reflect.Slice:
		f(path, v)
	}
}

// others are other values than a leaf has: for labels some that another pod of the same StatefulSet
// has.
func others(leaf reflect.Value) []reflect.Value {
	v := reflect.New(leaf.Type()).Elem()
	v.Set(leaf)
	switch {
	case v.Type() == reflect.TypeFor[Labels]():
		return []reflect.Value{
			reflect.ValueOf(LabelsOf(map[string]string{"other": "x"})), reflect.ValueOf(ofPod("db-1")),
		}
	case v.Type() == reflect.TypeFor[Sensitive]():
		return []reflect.Value{reflect.ValueOf(NewSensitive("other"))}
	case v.Kind() == reflect.String:
		v.SetString(v.String() + "x")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.CanUint():
		v.SetUint(v.Uint() + 1)
	default:
		panic(fmt.Sprintf("%s in a model type", v.Type()))
	}
	return []reflect.Value{v}
}

func ofPod(name string) Labels { return LabelsOf(map[string]string{PodNameLabel: name}) }
