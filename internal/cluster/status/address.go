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
	// Services reads those of core/v1.
	Services rest.Interface
	// Namespace is where the gateways' Service is.
	Namespace string
	Metrics   *observe.Metrics
	Log       *slog.Logger
}

// AddressWriter writes into status.loadBalancer of the mesh's Ingresses where its gateways are
// reached: the addresses of their Service, as the cloud's load balancer gives them to it. An
// Ingress that ceases to be the mesh's keeps what it has, since it is somebody else's now.
type AddressWriter struct {
	AddressOptions
	*desk

	mu        sync.Mutex
	addresses addresses
	sure      bool // the Service was looked at
	known     map[source.Key]told
}

// told is what stands in the status of an Ingress.
type told struct {
	uid       string
	addresses addresses
}

// addresses are IPs and host names, sorted, with commas between them.
type addresses string

// NewAddressWriter makes one for one time as the leader.
func NewAddressWriter(o AddressOptions) *AddressWriter {
	return &AddressWriter{AddressOptions: o, known: map[source.Key]told{}}
}

// Run writes until ctx ends.
func (w *AddressWriter) Run(ctx context.Context) {
	select { // before the first state, no Ingress is known to be the mesh's
	case <-w.Ingresses.complete:
	case <-ctx.Done():
		return
	}
	w.desk = newDesk(ctx, w.Metrics, w.Log)
	if !w.learn(ctx) {
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
	following.Go(func() { w.follow(ctx, renamed) })
	w.work(ctx, func(k source.Key) { w.handle(ctx, k) })
	following.Wait()
}

// learn reads what stands in statuses, so that nothing is written twice.
func (w *AddressWriter) learn(ctx context.Context) bool {
	return w.read(ctx, kinds.Ingress, func() error {
		return w.API.list(ctx, kinds.Ingress, func(l *live) {
			k := source.Key{Kind: kinds.Ingress, Namespace: l.Metadata.Namespace, Name: l.Metadata.Name}
			if _, ours := w.Ingresses.uid(k); ours {
				w.known[k] = told{l.Metadata.UID, ofLoadBalancer(l.Status.LoadBalancer.Ingress)}
			}
		})
	})
}

// follow watches the Service, be it another one from time to time.
func (w *AddressWriter) follow(ctx context.Context, renamed <-chan struct{}) {
	for ctx.Err() == nil {
		following, stop := context.WithCancel(ctx)
		var watching sync.WaitGroup
		if name := w.Ingresses.gateway(); name == "" {
			w.reached(func() addresses { return "" })
		} else {
			watching.Go(func() { w.watch(following, name) })
		}
		select {
		case <-ctx.Done():
		case <-renamed:
		}
		stop()
		watching.Wait()
	}
}

// watch tells the addresses of one Service. The watch is of that one alone, and only the leader has
// it: its status is none of the proxies' business, so that the pipeline does not see it.
func (w *AddressWriter) watch(ctx context.Context, name string) {
	var store cache.Store
	look := func(any) {
		if ctx.Err() == nil {
			w.reached(func() addresses { return ofServices(store.List()) })
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

// reached looks at the addresses as they are now, one after the other, so that the last look
// counts.
func (w *AddressWriter) reached(look func() addresses) {
	w.mu.Lock()
	now := look()
	changed := !w.sure || w.addresses != now
	w.addresses, w.sure = now, true
	w.mu.Unlock()
	if !changed {
		return
	}
	for _, k := range w.Ingresses.all() {
		w.queue.Add(k)
	}
}

// handle writes the status of one Ingress if it differs, and says when to try again.
func (w *AddressWriter) handle(ctx context.Context, k source.Key) {
	uid, ours := w.Ingresses.uid(k)
	w.mu.Lock()
	want, sure, has := told{uid, w.addresses}, w.sure, w.known[k]
	if !ours {
		delete(w.known, k)
	}
	w.mu.Unlock()
	if has.uid != uid {
		has = told{uid: uid} // it is another one, on which nobody has written
	}
	if !ours || !sure || has == want {
		w.queue.Forget(k)
		return
	}
	if result, err := w.write(ctx, k, want); ctx.Err() == nil {
		w.wrote(k, result, err)
	}
}

func (w *AddressWriter) write(ctx context.Context, k source.Key, want told) (result string, err error) {
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

// ofServices are the addresses of the only Service of a list, if there is one.
func ofServices(list []any) addresses {
	for _, o := range list {
		if s, ok := o.(*corev1.Service); ok {
			return ofService(s)
		}
	}
	return ""
}

// ofService are the addresses under which a Service is reached from outside, as Istio's status of
// Ingresses has them.
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

// loadBalancer is what stands in a status.
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
