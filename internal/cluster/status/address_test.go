package status

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// ingressAPI holds the Ingresses of an API server, by name.
type ingressAPI struct {
	mu      sync.Mutex
	objects map[string]*liveObject
	refuse  int // how many patches are refused
	patches []string
}

func (f *ingressAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/apis/networking.k8s.io/v1/")
	if path == "ingresses" {
		_ = json.NewEncoder(w).Encode(map[string]any{"items": slices.Collect(maps.Values(f.objects))})
		return
	}
	name, _ := strings.CutSuffix(strings.TrimPrefix(path, "namespaces/default/ingresses/"), "/status")
	body, _ := io.ReadAll(r.Body)
	var patch liveObject
	l := f.objects[name]
	switch err := json.Unmarshal(body, &patch); {
	case f.refuse > 0:
		f.refuse--
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case err != nil || l == nil:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case patch.Metadata.UID != l.Metadata.UID:
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
	default:
		l.Status = patch.Status
		f.patches = append(f.patches, name)
		_ = json.NewEncoder(w).Encode(l)
	}
}

func (f *ingressAPI) put(name, uid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &liveObject{}
	l.Metadata.Namespace, l.Metadata.Name, l.Metadata.UID = "default", name, uid
	f.objects[name] = l
}

func (f *ingressAPI) addresses(name string) addresses {
	f.mu.Lock()
	defer f.mu.Unlock()
	return ofLoadBalancer(f.objects[name].Status.LoadBalancer.Ingress)
}

func ingressKey(name string) source.Key {
	return source.Key{Kind: kinds.Ingress, Namespace: "default", Name: name}
}

func taken(name, uid string) []IngressChange {
	return []IngressChange{{Key: ingressKey(name), UID: uid, Owned: true}}
}

// writeAddresses is one time as the leader, with no Service to watch; it ends with what is
// returned.
func writeAddresses(t *testing.T, i *Ingresses, fake *ingressAPI) (w *AddressWriter, resign func()) {
	server := httptest.NewServer(fake)
	transport := &http.Transport{}
	api, err := NewAPI(&rest.Config{Host: server.URL, Transport: transport})
	require.NoError(t, err)
	w = NewAddressWriter(AddressOptions{
		Ingresses: i, API: api, Log: slog.New(slog.DiscardHandler),
		Metrics: observe.New(observe.Build{Start: time.Now(), Now: time.Now}),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	return w, func() {
		cancel()
		running.Wait()
		transport.CloseIdleConnections()
		server.Close()
	}
}

func TestAddressesAreWrittenOnceForEachIngressOfTheMesh(t *testing.T) {
	fake := &ingressAPI{objects: map[string]*liveObject{}, refuse: 1}
	until := func(name string, want addresses) {
		t.Helper()
		require.Eventually(t, func() bool { return fake.addresses(name) == want }, 3*time.Minute, time.Millisecond)
	}
	at := func(a addresses) func() addresses { return func() addresses { return a } }
	fake.put("shop", "1")
	fake.put("other", "2")
	i := NewIngresses()
	w, resign := writeAddresses(t, i, fake)
	i.Compiled(taken("shop", "1"), "")
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.serviceRead
	}, 3*time.Minute, time.Millisecond)
	w.setAddresses(at("192.0.2.1,lb.example.com"))
	until("shop", "192.0.2.1,lb.example.com")

	// One that comes later, and one that another takes the place of.
	i.Compiled(taken("other", "2"), "")
	until("other", "192.0.2.1,lb.example.com")
	fake.put("shop", "3")
	i.Compiled(taken("shop", "3"), "")
	until("shop", "192.0.2.1,lb.example.com")
	resign()
	before := len(fake.patches)

	// The next leader has nothing to write; what was let go keeps what it has.
	i.Compiled([]IngressChange{{Key: ingressKey("other")}}, "")
	w = NewAddressWriter(w.AddressOptions)
	w, resign = writeAddresses(t, i, fake)
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.serviceRead && len(w.known) == 1
	}, 3*time.Minute, time.Millisecond)
	w.setAddresses(at("192.0.2.1,lb.example.com"))
	w.setAddresses(at("2001:db8::1"))
	until("shop", "2001:db8::1")
	resign()
	require.Equal(t, addresses("192.0.2.1,lb.example.com"), fake.addresses("other"))
	require.NotContains(t, fake.patches[before:], "other")
}

func TestWhereAServiceIsReached(t *testing.T) {
	balanced := &corev1.Service{Spec: corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.9", "192.0.2.1"}}}
	balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
		{IP: "192.0.2.1"}, {Hostname: "lb.example.com"}, {},
	}
	require.Equal(t, addresses("192.0.2.1,192.0.2.9,lb.example.com"), ofService(balanced))
	named := &corev1.Service{Spec: corev1.ServiceSpec{
		Type:         corev1.ServiceTypeExternalName,
		ExternalName: "edge.example.com",
	}}
	require.Equal(t, addresses("edge.example.com"), ofService(named))
	require.Empty(t, ofServices(nil))
	for _, a := range []addresses{"", "192.0.2.1,2001:db8::1,lb.example.com"} {
		require.Equal(t, a, ofLoadBalancer(a.loadBalancer()))
	}
}
