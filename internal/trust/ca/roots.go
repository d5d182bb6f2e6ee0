package ca

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/lateen-mesh/lateen/internal/observe"
)

// RootsConfigMap is the default name of the ConfigMaps, which is Istio's.
const RootsConfigMap = "istio-ca-root-cert"

// RootsKey is the key of the ConfigMaps.
const RootsKey = "root-cert.pem"

// RevokedConfigMap is the default name of the ConfigMaps with revoked certificates, which is
// Istio's.
const RevokedConfigMap = "istio-ca-crl"

// RootsOptions are what Roots needs.
type RootsOptions struct {
	Holder *Holder
	Client typedcorev1.CoreV1Interface
	// Name is that of the ConfigMaps (PILOT_CA_CERT_CONFIGMAP); empty means RootsConfigMap.
	Name string
	// Key is that of the ConfigMaps; empty means RootsKey.
	Key string
	// Content returns what stands under Key, which is bounded by the size of a Secret. Where it is
	// empty, no ConfigMap is made, and what has content is emptied. If it is not known, nothing is
	// written. Nil means the roots.
	Content func(*Authority) (text []byte, known bool)
	// Scope returns what reports whether a namespace gets one, by its labels; nil as long as that
	// is not known. The channel is closed when another takes its place. Without Scope, each
	// namespace gets one.
	Scope func() (selects func(labels map[string]string) bool, changed <-chan struct{})
	// Interval is the time between two writes; 0 means 20 ms. It bounds what somebody costs who
	// edits a ConfigMap again and again.
	Interval time.Duration
	Metrics  *observe.Metrics
	Log      *slog.Logger
}

// Roots keeps a ConfigMap with the roots of the mesh in each namespace in scope, or with other
// content of the authority.
type Roots struct {
	o RootsOptions
	// events of namespaces and ConfigMaps, which Run handles.
	events chan func(*rootsState)
}

// NewRoots returns a Roots. It sends no request.
func NewRoots(o RootsOptions) *Roots {
	if o.Interval == 0 {
		o.Interval = 20 * time.Millisecond
	}
	o.Name, o.Key = cmp.Or(o.Name, RootsConfigMap), cmp.Or(o.Key, RootsKey)
	if o.Content == nil {
		o.Content = func(a *Authority) ([]byte, bool) { return a.Bundle(), true }
	}
	if o.Scope == nil {
		o.Scope = everywhere
	}
	return &Roots{o: o, events: make(chan func(*rootsState))}
}

// everywhere selects all namespaces.
func everywhere() (selects func(map[string]string) bool, changed <-chan struct{}) {
	return func(map[string]string) bool { return true }, nil
}

// rootsState is what Run knows. Only its goroutine uses it.
type rootsState struct {
	namespaces map[string]map[string]string // labels by name, of those that are not being deleted
	present    map[string]string            // the content of the ConfigMaps, by namespace
	due        map[string]struct{}          // namespaces to look at
	failed     map[string]struct{}          // those that are due again after retryDelay
}

// fieldManager names the writer in the ConfigMaps' managed fields.
const fieldManager = "lateen-ca"

// writeTimeout is how long one write may take.
const writeTimeout = 10 * time.Second

// systemNamespaces are those of Kubernetes itself, which have no workloads of a mesh.
var systemNamespaces = []string{"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}

// Run writes what differs until ctx ends. The leader does it. It begins once all namespaces and
// ConfigMaps are known, so that a restart writes nothing that is right.
func (r *Roots) Run(ctx context.Context) {
	state := &rootsState{
		namespaces: map[string]map[string]string{}, present: map[string]string{},
		due: map[string]struct{}{}, failed: map[string]struct{}{},
	}
	synced := r.watch(ctx)
	var pace, retry <-chan time.Time // set while something is due, or has failed
	content, changed := r.content()
	selects, rescoped := r.o.Scope()
	for {
		if pace == nil && len(state.due) > 0 && synced == nil && content != nil && selects != nil {
			pace = time.After(r.o.Interval)
		}
		if retry == nil && len(state.failed) > 0 {
			retry = time.After(retryDelay)
		}
		select {
		case <-ctx.Done():
			return
		case event := <-r.events:
			event(state)
		case <-synced:
			synced = nil
			state.all()
		case <-changed: // Get is called only here: elsewhere it would replace a closed channel, unseen
			content, changed = r.content()
			state.all()
		case <-rescoped:
			selects, rescoped = r.o.Scope()
			state.all()
		case <-retry:
			retry = nil
			state.retry()
		case <-pace:
			pace = nil
			if content != nil { // it may have become unknown meanwhile
				r.step(ctx, state, want{*content, selects})
			}
		}
	}
}

// content returns what the ConfigMaps should have; nil if that is not known. The channel is closed
// when it may be another.
func (r *Roots) content() (*string, <-chan struct{}) {
	authority, changed, err := r.o.Holder.Get()
	if err != nil {
		return nil, changed
	}
	text, known := r.o.Content(authority)
	if !known {
		return nil, changed
	}
	content := string(text)
	return &content, changed
}

// all makes all namespaces due.
func (s *rootsState) all() {
	for name := range s.namespaces {
		s.due[name] = struct{}{}
	}
}

// retry makes the namespaces due whose writes have failed.
func (s *rootsState) retry() {
	for name := range s.failed {
		s.due[name] = struct{}{}
	}
	clear(s.failed)
}

// want is what the ConfigMaps of the selected namespaces should have.
type want struct {
	content string
	selects func(labels map[string]string) bool
}

// step writes one ConfigMap that differs, if there is one. Those of namespaces that are not
// selected any more stay: a workload may still have them mounted.
func (r *Roots) step(ctx context.Context, s *rootsState, w want) {
	for namespace := range s.due {
		delete(s.due, namespace)
		labels, exists := s.namespaces[namespace]
		if !exists || s.present[namespace] == w.content || slices.Contains(systemNamespaces, namespace) ||
			!w.selects(labels) {
			continue
		}
		if !r.write(ctx, namespace, w.content) {
			s.failed[namespace] = struct{}{}
		}
		return
	}
}

// write applies the ConfigMap of a namespace. It reports whether that is done.
func (r *Roots) write(ctx context.Context, namespace, content string) bool {
	var data map[string]string // without content, the key goes
	if content != "" {
		data = map[string]string{r.o.Key: content}
	}
	text, err := json.Marshal(&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name: r.o.Name, Namespace: namespace, Labels: map[string]string{"istio.io/config": "true"},
		},
		Data: data,
	})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	force := true
	_, err = r.o.Client.ConfigMaps(namespace).Patch(ctx, r.o.Name, types.ApplyPatchType, text,
		metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	result := "written"
	switch {
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		result = "gone"
	case err != nil:
		result = "error"
		r.o.Log.Error("the ConfigMap of the certificate authority cannot be written",
			"configmap", namespace+"/"+r.o.Name, "error", err)
	}
	r.o.Metrics.CA.RootWrites.WithLabelValues(result).Inc()
	return result != "error"
}

// watch watches namespaces and ConfigMaps until ctx ends. The channel is closed when all are known.
func (r *Roots) watch(ctx context.Context) <-chan struct{} {
	client := r.o.Client.RESTClient()
	_, namespaces := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client, "namespaces", "", fields.Everything()),
		ObjectType:    &corev1.Namespace{},
		Transform:     r.onlyNames,
		Handler:       r.handler(ctx, sawNamespace, goneNamespace),
	})
	_, configMaps := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(client, "configmaps", "",
			fields.OneTermEqualSelector(metav1.ObjectNameField, r.o.Name)),
		ObjectType: &corev1.ConfigMap{},
		Transform:  r.onlyNames,
		Handler:    r.handler(ctx, r.sawConfigMap, goneConfigMap),
	})
	go namespaces.RunWithContext(ctx)
	go configMaps.RunWithContext(ctx)
	synced := make(chan struct{})
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), namespaces.HasSynced, configMaps.HasSynced) {
			close(synced)
		}
	}()
	return synced
}

// handler passes events to Run.
func (r *Roots) handler(ctx context.Context, saw, gone func(*rootsState, metav1.Object)) cache.ResourceEventHandler {
	pass := func(o any, f func(*rootsState, metav1.Object)) {
		if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
			o = unknown.Obj
		}
		object, ok := o.(metav1.Object)
		if !ok {
			return
		}
		select {
		case r.events <- func(s *rootsState) { f(s, object) }:
		case <-ctx.Done():
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { pass(o, saw) },
		UpdateFunc: func(_, o any) { pass(o, saw) },
		DeleteFunc: func(o any) { pass(o, gone) },
	}
}

// onlyNames drops what is not needed of an object.
func (r *Roots) onlyNames(o any) (any, error) {
	switch o := o.(type) {
	case *corev1.Namespace:
		o.ManagedFields, o.Annotations = nil, nil
	case *corev1.ConfigMap:
		o.ManagedFields, o.Annotations, o.BinaryData = nil, nil, nil
		o.Data = map[string]string{r.o.Key: o.Data[r.o.Key]}
	}
	return o, nil
}

func sawNamespace(s *rootsState, o metav1.Object) {
	if o.GetDeletionTimestamp() != nil {
		goneNamespace(s, o)
		return
	}
	s.namespaces[o.GetName()] = o.GetLabels()
	s.due[o.GetName()] = struct{}{}
}

func goneNamespace(s *rootsState, o metav1.Object) {
	delete(s.namespaces, o.GetName())
	delete(s.due, o.GetName())
}

func (r *Roots) sawConfigMap(s *rootsState, o metav1.Object) {
	if c, ok := o.(*corev1.ConfigMap); ok {
		s.present[c.Namespace] = c.Data[r.o.Key]
		s.due[c.Namespace] = struct{}{}
	}
}

func goneConfigMap(s *rootsState, o metav1.Object) {
	delete(s.present, o.GetNamespace())
	s.due[o.GetNamespace()] = struct{}{}
}
