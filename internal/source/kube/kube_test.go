package kube_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// createAll makes one object of each kind that stands in a namespace.
func (c cluster) createAll(t testing.TB, ns string) {
	t.Helper()
	must := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	ctx, o, m := t.Context(), metav1.CreateOptions{}, metav1.ObjectMeta{Name: "web"}
	must(c.CoreV1().Services(ns).Create(ctx, service("web"), o))
	must(c.DiscoveryV1().EndpointSlices(ns).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: m, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}},
		},
	}, o))
	must(c.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, o))
	n, s := c.istio.NetworkingV1(), c.istio.SecurityV1()
	must(n.Gateways(ns).Create(ctx, &networkingv1.Gateway{ObjectMeta: m, Spec: networking.Gateway{
		Servers: []*networking.Server{
			{Port: &networking.Port{Number: 80, Protocol: "HTTP", Name: "http"}, Hosts: []string{"*"}},
		},
	}}, o))
	must(n.VirtualServices(ns).Create(
		ctx, &networkingv1.VirtualService{ObjectMeta: m, Spec: networking.VirtualService{Hosts: []string{"web"}}}, o,
	))
	must(n.DestinationRules(ns).Create(
		ctx, &networkingv1.DestinationRule{ObjectMeta: m, Spec: networking.DestinationRule{Host: "web"}}, o,
	))
	must(n.ServiceEntries(ns).Create(ctx, &networkingv1.ServiceEntry{ObjectMeta: m, Spec: networking.ServiceEntry{
		Hosts: []string{"a.example.com"},
		Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
	}}, o))
	must(n.Sidecars(ns).Create(ctx, &networkingv1.Sidecar{ObjectMeta: m}, o))
	must(s.AuthorizationPolicies(ns).Create(ctx, &securityv1.AuthorizationPolicy{ObjectMeta: m}, o))
	must(s.PeerAuthentications(ns).Create(ctx, &securityv1.PeerAuthentication{ObjectMeta: m}, o))
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
	}}
}

// everything is what createAll makes.
var everything = []string{
	"AuthorizationPolicy web", "DestinationRule web", "EndpointSlice web", "Gateway web", "PeerAuthentication web",
	"Pod web",
	"Service web", "ServiceEntry web", "Sidecar web", "VirtualService web",
}

func key(kind kinds.Kind, namespace, name string) source.Key {
	return source.Key{Kind: kind, Namespace: namespace, Name: name}
}

func TestObjectsOfEveryKindComeAndGo(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c, early, late := clientOf(t, api.Config()), api.Namespace(t, nil), api.Namespace(t, nil)
	c.createAll(t, early)
	s := run(t, kube.Options{Config: api.Config()})
	s.awaitSync()
	require.Equal(t, everything, s.in(early))
	require.NotNil(t, s.get(key(kinds.Namespace, "", early)))

	c.createAll(t, late)
	eventually(t, func() bool { return len(s.in(late)) == len(everything) })
	require.Equal(t, everything, s.in(late))
	vs := s.get(key(kinds.VirtualService, late, "web")).(*networkingv1.VirtualService)
	require.Equal(t, []string{"web"}, vs.Spec.Hosts)
	require.NotEmpty(t, vs.UID)
	require.EqualValues(t, 1, vs.Generation)
	require.Len(t, vs.ManagedFields, 1, "who wrote it last")
	require.Equal(t, "kube.test", vs.ManagedFields[0].Manager)
	require.Nil(t, vs.ManagedFields[0].FieldsV1)

	now := int64(0)
	require.NoError(t, c.CoreV1().Pods(late).Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	require.NoError(t, c.istio.NetworkingV1().VirtualServices(late).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventually(t, func() bool { return len(s.in(late)) == len(everything)-2 })
	require.Empty(t, s.problem(""))
}

// patch changes an object as users do.
func patchService(t testing.TB, c cluster, ns, name, patch string, subresources ...string) {
	t.Helper()
	_, err := c.CoreV1().Services(ns).Patch(
		t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...,
	)
	require.NoError(t, err)
}

func TestUpdatesOfUnusedFieldsAreDropped(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c, ns := clientOf(t, api.Config()), api.Namespace(t, nil)
	c.createAll(t, ns)
	s := run(t, kube.Options{Config: api.Config()})
	s.awaitSync()
	before := s.count()
	patchService(t, c, ns, "web", `{"metadata":{"annotations":{"heartbeat":"1"},"labels":{"a":"b"}}}`)
	patchService(
		t,
		c,
		ns,
		"web",
		`{"status":{"conditions":[{"type":"Seen","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
		"status",
	)
	merge := func(patch string, subresources ...string) {
		_, err := c.CoreV1().Pods(ns).Patch(
			t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "another"},
			subresources...,
		)
		require.NoError(t, err)
		_, err = c.istio.NetworkingV1().VirtualServices(ns).Patch(
			t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...,
		)
		require.NoError(t, err)
	}
	merge(`{"status":{"conditions":[{"type":"Seen","status":"True"}]}}`, "status")
	merge(`{"metadata":{"annotations":{"heartbeat":"2"}}}`)
	// What follows is delivered after all this, on each of the watches.
	patchService(t, c, ns, "web", `{"spec":{"sessionAffinity":"ClientIP"}}`)
	_, err := c.CoreV1().Pods(ns).Patch(
		t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"other"}}}`),
		metav1.PatchOptions{},
	)
	require.NoError(t, err)
	_, err = c.istio.NetworkingV1().VirtualServices(ns).Patch(
		t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"hosts":["other"]}}`), metav1.PatchOptions{},
	)
	require.NoError(t, err)
	eventually(t, func() bool { return len(s.since(before, ns)) == 3 })
	for kind, same := range map[string]int{"Service": 2, "Pod": 2, "VirtualService": 2} {
		require.InDelta(t, same, s.counter("lateen_watch_events_total", kind, "same"), 0)
	}
}

func TestObjectsOfAnotherRevisionAreLeftOut(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c, ns := clientOf(t, api.Config()), api.Namespace(t, nil)
	for name, labels := range map[string]map[string]string{
		"any": nil, "mine": {"istio.io/rev": "canary"}, "theirs": {"istio.io/rev": "stable"},
	} {
		_, err := c.istio.NetworkingV1().Sidecars(ns).Create(t.Context(), &networkingv1.Sidecar{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	s := run(t, kube.Options{Config: api.Config(), Revision: "canary"})
	s.awaitSync()
	require.Equal(t, []string{"Sidecar any", "Sidecar mine"}, s.in(ns))
	_, err := c.istio.NetworkingV1().Sidecars(ns).Patch(t.Context(), "mine", types.MergePatchType, []byte(
		`{"metadata":{"labels":{"istio.io/rev":"stable"}}}`,
	), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, func() bool { return len(s.in(ns)) == 1 })
}

// Objects are written past the validation of the API server, as a webhook or a schema that was not
// there would let them.
func TestAnObjectThatCannotBeReadIsRefusedAlone(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c, ns := clientOf(t, api.Config()), api.Namespace(t, nil)
	c.createAll(t, ns)
	put := func(group, kind, resource, name, spec string) {
		api.Put(t, fmt.Sprintf("/registry/%s/%s/%s/%s", group, resource, ns, name), fmt.Appendf(
			nil,
			`{"apiVersion":"%s/v1","kind":"%s","metadata":{"name":"%s","namespace":"%s","uid":"%s-uid","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":%s}`,
			group,
			kind,
			name,
			ns,
			name,
			spec,
		))
	}
	const networking, security = "networking.istio.io", "security.istio.io"
	put(networking, "VirtualService", "virtualservices", "early", `{"hosts":"not a list"}`)
	s := run(t, kube.Options{Config: api.Config()})
	s.awaitSync()
	require.Equal(t, everything, s.in(ns))
	require.Contains(t, s.problem(
		"VirtualService "+ns+"/early",
	), "the object is not in force; want a spec of networking.istio.io/v1 VirtualService")

	put(networking, "VirtualService", "virtualservices", "late", `{"http":[{"timeout":7}]}`)
	put(
		security, "AuthorizationPolicy", "authorizationpolicies", "closed",
		`{"selector":{"matchLabels":{"app":"web"}},"action":"DENY","rules":7}`,
	)
	put(security, "PeerAuthentication", "peerauthentications", "closed", `{"mtls":"PERMISSIVE"}`)
	eventually(t, func() bool {
		return s.problem(
			"VirtualService "+ns+"/late",
		) != "" && s.problem("PeerAuthentication") != "" && s.problem("AuthorizationPolicy") != ""
	})
	policy := s.get(key(kinds.AuthorizationPolicy, ns, "closed")).(*securityv1.AuthorizationPolicy)
	require.Equal(t, map[string]string{"app": "web"}, policy.Spec.GetSelector().GetMatchLabels())
	require.Equal(t, "ALLOW", policy.Spec.GetAction().String())
	require.Empty(t, policy.Spec.GetRules())
	require.Contains(t, s.problem("AuthorizationPolicy"), "calls are refused until it can be read")
	peers := s.get(key(kinds.PeerAuthentication, ns, "closed")).(*securityv1.PeerAuthentication)
	require.Equal(t, "STRICT", peers.Spec.GetMtls().GetMode().String())

	require.NoError(t, c.istio.NetworkingV1().VirtualServices(ns).Delete(t.Context(), "late", metav1.DeleteOptions{}))
	_, err := c.istio.NetworkingV1().VirtualServices(ns).Patch(
		t.Context(), "early", types.MergePatchType, []byte(`{"spec":{"hosts":["early"]}}`), metav1.PatchOptions{},
	)
	require.NoError(t, err)
	eventually(t, func() bool {
		return s.problem("VirtualService") == "" && s.get(key(kinds.VirtualService, ns, "early")) != nil
	})
}

// What happens while the source cannot reach the API server is found afterwards, also when the
// history of it is lost.
func TestRepeatedListDeliversOnlyTheDifference(t *testing.T) {
	api := kubeapi.Start(t, kubeapi.Options{NoControllerManager: true, NoWatchCache: true})
	c, ns := clientOf(t, api.Config()), api.Namespace(t, nil)
	for _, name := range []string{"gone", "same", "other"} {
		_, err := c.CoreV1().Services(ns).Create(t.Context(), service(name), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	config, gate := gated(api.Config())
	s := run(t, kube.Options{Config: config})
	s.awaitSync()
	require.Equal(t, []string{"Service gone", "Service other", "Service same"}, s.in(ns))

	before := s.count()
	gate.shut()
	eventually(t, func() bool { return s.problem("the Kubernetes API") != "" })
	require.NoError(t, c.CoreV1().Services(ns).Delete(t.Context(), "gone", metav1.DeleteOptions{}))
	patchService(t, c, ns, "same", `{"metadata":{"annotations":{"heartbeat":"1"}}}`)
	patchService(t, c, ns, "other", `{"spec":{"sessionAffinity":"ClientIP"}}`)
	_, err := c.CoreV1().Services(ns).Create(t.Context(), service("new"), metav1.CreateOptions{})
	require.NoError(t, err)
	api.Compact(t)
	gate.open()
	eventually(t, func() bool { return s.get(key(kinds.Service, ns, "new")) != nil && s.problem("") == "" })
	require.Equal(t, []string{"Service new", "Service other", "Service same"}, s.in(ns))
	events := s.since(before, ns)
	require.Len(t, events, 1)
	changed := slices.DeleteFunc(
		slices.Clone(events[0].Changes), func(c source.Change) bool { return c.Key.Namespace != ns },
	)
	require.Len(t, changed, 3)

	t.Run("definitions that come late", func(t *testing.T) { definitionsThatComeLate(t, api, s) })
}

func definitionsThatComeLate(t *testing.T, api *kubeapi.Server, s *sink) {
	api.InstallIstioCRDs(t)
	c, ns := clientOf(t, api.Config()), api.Namespace(t, nil)
	c.createAll(t, ns)
	eventually(t, func() bool { return len(s.in(ns)) == len(everything) })

	definitions := c.CoreV1().RESTClient().Delete().AbsPath(
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/virtualservices.networking.istio.io",
	)
	require.NoError(t, definitions.Do(t.Context()).Error())
	eventually(t, func() bool { return s.get(key(kinds.VirtualService, ns, "web")) == nil })
	eventually(t, func() bool {
		_, err := c.istio.NetworkingV1().VirtualServices(ns).List(t.Context(), metav1.ListOptions{})
		return apierrors.IsNotFound(err)
	})
	require.Equal(t, len(everything)-1, len(s.in(ns)))
	api.InstallIstioCRDs(t)
	_, err := c.istio.NetworkingV1().VirtualServices(ns).Create(t.Context(), &networkingv1.VirtualService{
		ObjectMeta: metav1.ObjectMeta{Name: "back"}, Spec: networking.VirtualService{Hosts: []string{"back"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func() bool { return s.get(key(kinds.VirtualService, ns, "back")) != nil })
	eventually(t, func() bool { return s.problem("") == "" })
	require.True(t, s.isSynced(), "once")
}
