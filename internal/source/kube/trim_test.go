package kube

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingk8s "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/istiojson"
)

// builtinResources are those whose objects are trimmed by hand.
func builtinResources() []*resource {
	all := resources(&Options{RootNamespace: "istio-system", ConfigMap: "istio"})
	return slices.DeleteFunc(all, func(r *resource) bool { return r.custom })
}

// TestTrimmingKeepsTheMeaning fills objects at random, every field of them, and compares what
// api/convert makes of them as they are and trimmed. It fails when somebody begins to read a field
// that is dropped here.
func TestTrimmingKeepsTheMeaning(t *testing.T) {
	convert := convert.New(convert.Options{Selected: true})
	for _, r := range builtinResources() {
		meaningful := 0
		for seed := range 400 {
			whole := filled(r.kind, int64(seed))
			change := source.Change{
				Key: (&reader{resource: r}).keyOf(whole), Object: whole, ObservedAt: time.Unix(1700000000, 0),
			}
			want := convert.Convert(change, model.DefaultMesh())
			trimmed := whole.(runtime.Object).DeepCopyObject().(metav1.Object)
			r.builtin.trim(trimmed)
			change.Object = trimmed
			got := convert.Convert(change, model.DefaultMesh())
			require.Equal(t, want.Problems, got.Problems, "%s, seed %d", r.kind, seed)
			require.Equal(t, want.Terminating, got.Terminating, "%s, seed %d", r.kind, seed)
			require.Equal(t, len(want.Objects), len(got.Objects))
			for i := range want.Objects {
				withoutAge(want.Objects[i])
				withoutAge(got.Objects[i])
				require.Equal(t, want.Objects[i], got.Objects[i], "%s, seed %d", r.kind, seed)
				meaningful++
			}
		}
		require.NotZero(t, meaningful, "no %s meant anything", r.kind)
	}
}

// withoutAge leaves out what nothing depends on: of these kinds no two compete for anything.
func withoutAge(o model.Object) {
	switch o := o.(type) {
	case *model.Workload:
		o.UID, o.Created = "", 0
	case *model.EndpointSlice:
		o.UID, o.Created = "", 0
	case *model.Namespace:
		o.UID, o.Created = "", 0
	case *model.Node:
		o.UID, o.Created = "", 0
	case *model.IngressClass:
		o.UID, o.Created = "", 0
	case *model.Credential:
		o.UID, o.Created = "", 0
	}
}

// filled is an object with everything set at random; what must be well formed to mean anything is,
// mostly.
func filled(k kinds.Kind, seed int64) metav1.Object {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	pick := func(values ...string) string { return values[random.IntN(len(values))] }
	o := k.NewObject()
	randfill.NewWithSeed(seed).NilChance(.3).NumElements(1, 3).MaxDepth(12).Funcs(
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			c.FillNoCustom(m)
			m.Name, m.Namespace, m.GenerateName = pick("a", "b"), pick("x", "y"), ""
			m.ManagedFields = nil
			m.CreationTimestamp = metav1.Unix(int64(1+random.IntN(9)), 0)
			if m.DeletionTimestamp = nil; random.IntN(2) == 0 {
				m.DeletionTimestamp = &m.CreationTimestamp
			}
			for _, known := range slices.Concat(
				kinds.UsedAnnotations(), usedNodeLabels, []string{discoveryv1.LabelServiceName, "istio-locality"},
			) {
				if m.Labels == nil || m.Annotations == nil || random.IntN(2) == 0 {
					continue
				}
				m.Labels[known], m.Annotations[known] = pick("a", "b"), pick("127.0.0.1", "*")
			}
		},
		func(s *intstr.IntOrString, _ randfill.Continue) {
			*s = []intstr.IntOrString{intstr.FromInt32(80), intstr.FromString("http")}[random.IntN(2)]
		},
		func(p *corev1.Protocol, _ randfill.Continue) { *p = corev1.Protocol(pick("TCP", "UDP", "")) },
		func(p *corev1.PodPhase, _ randfill.Continue) {
			*p = corev1.PodPhase(pick("Running", "Pending", "Failed"))
		},
		func(p *discoveryv1.AddressType, _ randfill.Continue) { *p = discoveryv1.AddressTypeIPv4 },
		func(p *corev1.ContainerPort, c randfill.Continue) {
			c.FillNoCustom(p)
			p.Name, p.ContainerPort = pick("", "http", "grpc"), int32(1+random.IntN(100))
		},
		func(p *corev1.ServicePort, c randfill.Continue) {
			c.FillNoCustom(p)
			p.Name, p.Port = pick("http", "grpc", "tcp"), int32(1+random.IntN(100))
		},
		func(p *discoveryv1.EndpointPort, c randfill.Continue) {
			c.FillNoCustom(p)
			port, name := int32(1+random.IntN(100)), pick("http", "grpc")
			p.Port, p.Name = &port, &name
		},
		func(p *discoveryv1.Endpoint, c randfill.Continue) {
			c.FillNoCustom(p)
			p.Addresses = []string{"10.0.0." + strconv.Itoa(1+random.IntN(100))}
		},
		func(r *corev1.ObjectReference, c randfill.Continue) {
			c.FillNoCustom(r)
			r.Kind = pick("Pod", "Node")
		},
		func(p *corev1.PodIP, _ randfill.Continue) { p.IP = "10.0.0." + strconv.Itoa(1+random.IntN(100)) },
	).Fill(o)
	switch o := o.(type) {
	case *corev1.ConfigMap:
		o.Name, o.Namespace = "istio", "istio-system"
		o.Data = map[string]string{"mesh": pick("connectTimeout: 3s", "{")}
	case *corev1.Service:
		o.Spec.ClusterIP, o.Spec.ClusterIPs = "10.1.0.1", nil
	case *corev1.Pod:
		o.Status.PodIP = pick("", "10.0.0.7")
	case *networkingk8s.Ingress:
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations["kubernetes.io/ingress.class"] = pick("istio", "another")
	case *networkingk8s.IngressClass:
		o.Spec.Controller = pick("istio.io/ingress-controller", "example.com/another")
	case *corev1.Secret:
		for _, k := range slices.Concat(usedSecretKeys, []string{"token"}) {
			if o.Data != nil && random.IntN(2) == 0 {
				o.Data[k] = []byte("x")
			}
		}
		o.StringData = nil // an API server never returns it
		o.Type = corev1.SecretType(pick("Opaque", "kubernetes.io/tls"))
	}
	return o
}

// The fingerprint of an entry covers what is used: objects that agree in it have equal ones.
func TestFingerprintsCoverWhatIsUsed(t *testing.T) {
	seed := maphash.MakeSeed()
	for _, r := range builtinResources() {
		read := func(o metav1.Object) fingerprint {
			e, ours := (&reader{resource: r, seed: seed}).read(o)
			require.True(t, ours)
			return e.fingerprint
		}
		whole := func(edit func(metav1.Object)) metav1.Object {
			o := filled(r.kind, 3)
			if s, ok := o.(*corev1.Secret); ok {
				s.Type = corev1.SecretTypeTLS
			}
			edit(o)
			return o
		}
		base := read(whole(func(metav1.Object) {}))
		require.Equal(t, base, read(whole(func(o metav1.Object) {
			o.SetResourceVersion("7")
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "another"}})
			o.SetAnnotations(merge(o.GetAnnotations(), "heartbeat", "7"))
			o.SetFinalizers([]string{"x"})
		})), r.kind)
		require.NotEqual(t, base, read(whole(func(o metav1.Object) {
			o.SetName("another") // a part of every object
		})), r.kind)
	}
}

// TestObjectsSayWhoWroteThem: the last writer is delivered, but none of a status, and with it
// nothing else of the managedFields.
func TestObjectsSayWhoWroteThem(t *testing.T) {
	early, late := metav1.Unix(100, 0), metav1.Unix(200, 0)
	list := []metav1.ManagedFieldsEntry{
		{Manager: "status", Subresource: "status", Time: &late},
		{Manager: "second", Time: &late, FieldsV1: metav1.NewFieldsV1("{}")},
		{Manager: "first", Time: &early}, {Manager: "timeless"},
	}
	of := func(kind kinds.Kind, o metav1.Object) []metav1.ManagedFieldsEntry {
		o.SetManagedFields(list)
		all := resources(&Options{RootNamespace: "istio-system", ConfigMap: "istio"})
		at := slices.IndexFunc(all, func(r *resource) bool { return r.kind == kind })
		e, ours := (&reader{resource: all[at], seed: maphash.MakeSeed()}).read(o)
		require.True(t, ours)
		return e.object.GetManagedFields()
	}
	want := []metav1.ManagedFieldsEntry{{Manager: "second", Time: &late}}
	require.Equal(t, want, of(kinds.Service, &corev1.Service{}))
	require.Equal(t, want, of(kinds.VirtualService, &customObject{object: kinds.VirtualService.NewObject()}))
	require.Empty(t, of(kinds.Pod, &corev1.Pod{}), "they change all the time")
	list = list[:1]
	require.Empty(t, of(kinds.Service, &corev1.Service{}))
}

// Annotations that are used are delivered of Istio's kinds, too, and only those.
func TestAnnotationsOfCustomResources(t *testing.T) {
	resource := &resource{kind: kinds.ServiceEntry, watch: kinds.Of(kinds.ServiceEntry).Watch}
	seed, prints := maphash.MakeSeed(), map[fingerprint]bool{}
	read := func(all map[string]string) entry {
		e, ours := (&reader{resource: resource, seed: seed}).read(&customObject{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: all}, object: kinds.ServiceEntry.NewObject(),
		})
		require.True(t, ours)
		prints[e.fingerprint] = true
		return e
	}
	require.Empty(t, read(nil).object.GetAnnotations())
	require.Empty(t, read(map[string]string{"heartbeat": "1"}).object.GetAnnotations())
	require.Len(t, prints, 1)
	for _, name := range kinds.UsedAnnotations() {
		used := map[string]string{name: "x"}
		require.Equal(t, used, read(used).object.GetAnnotations())
	}
	require.Len(t, prints, 1+len(kinds.UsedAnnotations()))
}

// What a kind declares to count beside its spec is kept and makes an update; all else of its
// metadata and status does not.
func TestLabelsAndConditionCountWhereTheKindSaysSo(t *testing.T) {
	kind := kinds.WorkloadEntry
	resource := &resource{kind: kind, watch: kinds.Of(kind).Watch}
	seed := maphash.MakeSeed()
	read := func(labels map[string]string, status string) entry {
		c := &customObject{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: labels}, object: kind.NewObject()}
		c.readCondition(resource.watch.Condition, []byte(status))
		e, ours := (&reader{resource: resource, seed: seed}).read(c)
		require.True(t, ours)
		return e
	}
	plain, labels := read(nil, ""), map[string]string{"app": "a"}
	require.Equal(t, labels, read(labels, "").object.GetLabels())
	require.NotEqual(t, plain.fingerprint, read(labels, "").fingerprint)
	const other = `{"conditions": [{"type": "Ready", "status": "True"}]}`
	require.Equal(t, plain.fingerprint, read(nil, other).fingerprint)
	require.Equal(t, plain.fingerprint, read(nil, `{"conditions": 7}`).fingerprint)
	healthy := `{"conditions": [{"type": "Healthy", "status": "True"}]}`
	not := `{"conditions": [{"type": "Healthy", "status": "False"}]}`
	require.NotEqual(t, plain.fingerprint, read(nil, healthy).fingerprint)
	require.NotEqual(t, read(nil, not).fingerprint, read(nil, healthy).fingerprint)
}

func merge(m map[string]string, name, value string) map[string]string {
	out := map[string]string{name: value}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// TestTablesCoverTheirKinds fails when a kind is added to package kinds that this package
// has to know more of.
func TestTablesCoverTheirKinds(t *testing.T) {
	standard, err := standardCodecs()
	require.NoError(t, err)
	trimmed := builtins()
	for _, d := range kinds.Watched() {
		_, known := trimmed[d.Kind]
		require.Equal(t, !d.Custom, known, "%s: a line in builtins", d.Kind)
		delete(trimmed, d.Kind)
		require.Equal(t, d.Protects, istiojson.ClosedSpec(d.Kind, nil) != nil, "%s: a case in ClosedSpec", d.Kind)
		if !d.Custom {
			head := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q}`, d.APIVersions()[0], d.Kind)
			object, _, err := standard.UniversalDeserializer().Decode(head, nil, nil)
			require.NoError(t, err, "the codecs do not know the kind")
			require.IsType(t, d.New(), object)
		}
	}
	require.Empty(t, trimmed, "lines for kinds that are not watched")
}
