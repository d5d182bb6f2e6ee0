package status

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingk8s "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// AddressOptions are what an AddressWriter needs.
type AddressOptions struct {
	Ingresses *Ingresses
	API       API
	// Services is the client of core/v1.
	Services rest.Interface
	// Namespace is where the gateways' Service is.
	Namespace string
	Metrics   *observe.Metrics
	Log       *slog.Logger
}

// AddressWriter writes the addresses of the mesh's gateways into status.loadBalancer of its
// Ingresses. They are the addresses of the gateways' Service, which the cloud's load balancer has
// assigned. An Ingress that ceases to belong to the mesh keeps its status, because another
// controller may own it now.
type AddressWriter struct {
	AddressOptions
	*statusQueue

	mu          sync.Mutex
	addresses   addresses
	serviceRead bool // the Service was looked at
	known       map[source.Key]ingressStatus
}

// ingressStatus is what the status of an Ingress contains.
type ingressStatus struct {
	uid       string
	addresses addresses
}

// addresses are IPs and host names, sorted and joined with commas.
type addresses string

// NewAddressWriter returns an AddressWriter for one term as the leader.
func NewAddressWriter(o AddressOptions) *AddressWriter {
	return &AddressWriter{AddressOptions: o, known: map[source.Key]ingressStatus{}}
}

// Run writes until ctx ends.
func (w *AddressWriter) Run(ctx context.Context) {
	select { // before the first state, no Ingress is known to be the mesh's
	case <-w.Ingresses.firstState:
	case <-ctx.Done():
		return
	}
	w.statusQueue = newStatusQueue(ctx, inTurn(), w.Metrics, w.Log)
	if !w.readExisting(ctx) {
		return
	}
	renamed := make(chan struct{}, 1) // latest-value: the name is read anew
	w.Ingresses.listen(w.queue.Add, func() {
		select {
		case renamed <- struct{}{}:
		default:
		}
	})
	defer w.Ingresses.listen(nil, nil)
	var following sync.WaitGroup
	following.Go(func() { w.followService(ctx, renamed) })
	w.runWorkers(ctx, func(k source.Key) { w.handle(ctx, k) })
	following.Wait()
}

// readExisting lists the statuses of Ingresses, so that nothing is written twice.
func (w *AddressWriter) readExisting(ctx context.Context) bool {
	return w.retryList(ctx, kinds.Ingress, func() error {
		return w.API.list(ctx, kinds.Ingress, func(l *liveObject) {
			k := source.Key{Kind: kinds.Ingress, Namespace: l.Metadata.Namespace, Name: l.Metadata.Name}
			if _, ours := w.Ingresses.uid(k); ours {
				w.known[k] = ingressStatus{l.Metadata.UID, ofLoadBalancer(l.Status.LoadBalancer.Ingress)}
			}
		})
	})
}

// followService watches the Service, and another one when its name changes.
func (w *AddressWriter) followService(ctx context.Context, renamed <-chan struct{}) {
	for ctx.Err() == nil {
		following, stop := context.WithCancel(ctx)
		var watching sync.WaitGroup
		if name := w.Ingresses.gatewayService(); name == "" {
			w.setAddresses(func() addresses { return "" })
		} else {
			watching.Go(func() { w.watchService(following, name) })
		}
		select {
		case <-ctx.Done():
		case <-renamed:
		}
		stop()
		watching.Wait()
	}
}

// watchService takes the addresses of one Service. The leader watches it separately, because
// proxies do not depend on its status and the pipeline does not read it.
func (w *AddressWriter) watchService(ctx context.Context, name string) {
	var store cache.Store
	look := func(any) {
		if ctx.Err() == nil {
			w.setAddresses(func() addresses { return ofServices(store.List()) })
		}
	}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(w.Services, "services", w.Namespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, name)),
		ObjectType: &corev1.Service{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    look,
			UpdateFunc: func(_, o any) { look(o) },
			DeleteFunc: look,
		},
	})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), controller.HasSynced) {
			look(nil) // there may be none
		}
	})
	controller.RunWithContext(ctx)
	waiting.Wait()
}

// setAddresses calls look under the lock, so that the latest addresses win, and queues all
// Ingresses if they have changed.
func (w *AddressWriter) setAddresses(look func() addresses) {
	w.mu.Lock()
	now := look()
	changed := !w.serviceRead || w.addresses != now
	w.addresses, w.serviceRead = now, true
	w.mu.Unlock()
	if !changed {
		return
	}
	for _, k := range w.Ingresses.all() {
		w.queue.Add(k)
	}
}

// handle writes the status of one Ingress if it differs, and schedules a retry if that fails.
func (w *AddressWriter) handle(ctx context.Context, k source.Key) {
	uid, ours := w.Ingresses.uid(k)
	w.mu.Lock()
	want, sure, has := ingressStatus{uid, w.addresses}, w.serviceRead, w.known[k]
	if !ours {
		delete(w.known, k)
	}
	w.mu.Unlock()
	if has.uid != uid {
		has = ingressStatus{uid: uid} // it is another one, on which nobody has written
	}
	if !ours || !sure || has == want {
		w.queue.Forget(k)
		return
	}
	if result, err := w.write(ctx, k, want); ctx.Err() == nil {
		w.finish(k, result, err)
	}
}

func (w *AddressWriter) write(ctx context.Context, k source.Key, want ingressStatus) (result string, err error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": want.uid}, // another one of that name is refused
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": want.addresses.loadBalancer()}},
	})
	if err != nil {
		return failed, err
	}
	if result, err = outcome(w.API.patch(ctx, k, body)); result == written {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.known[k] = want
	}
	return result, err
}

// ofServices returns the addresses of the only Service of a list, if there is one.
func ofServices(list []any) addresses {
	for _, o := range list {
		if s, ok := o.(*corev1.Service); ok {
			return ofService(s)
		}
	}
	return ""
}

// ofService returns the addresses under which a Service is reached from outside. Istio writes the
// same ones into Ingresses.
func ofService(s *corev1.Service) addresses {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return join([]string{s.Spec.ExternalName})
	}
	all := slices.Clone(s.Spec.ExternalIPs)
	for _, i := range s.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			all = append(all, i.IP)
		} else {
			all = append(all, i.Hostname)
		}
	}
	return join(all)
}

func ofLoadBalancer(list []networkingk8s.IngressLoadBalancerIngress) addresses {
	var all []string
	for _, i := range list {
		all = append(all, i.IP, i.Hostname)
	}
	return join(all)
}

func join(list []string) addresses {
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	slices.Sort(list)
	return addresses(strings.Join(slices.Compact(list), ","))
}

// loadBalancer returns the addresses in the form of a status.
func (a addresses) loadBalancer() []networkingk8s.IngressLoadBalancerIngress {
	list := []networkingk8s.IngressLoadBalancerIngress{}
	if a == "" {
		return list
	}
	for text := range strings.SplitSeq(string(a), ",") {
		if _, err := netip.ParseAddr(text); err == nil {
			list = append(list, networkingk8s.IngressLoadBalancerIngress{IP: text})
		} else {
			list = append(list, networkingk8s.IngressLoadBalancerIngress{Hostname: text})
		}
	}
	return list
}
