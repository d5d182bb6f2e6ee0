package watch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/observe"
)

// meshKey is the key of the mesh configuration in its ConfigMap.
const meshKey = "mesh"

// Native says whether proxies stand among the init containers.
type Native string

// The values of Native.
const (
	NativeAuto Native = "auto" // if the cluster supports it
	NativeOn   Native = "true"
	NativeOff  Native = "false"
)

// Options are what a Watch needs.
type Options struct {
	// Core is the client of the core API.
	Core rest.Interface
	// Namespace is the root namespace, where the ConfigMaps are. ConfigMap and MeshConfig are their
	// names.
	Namespace, ConfigMap, MeshConfig string
	Revision                         string
	// Compliance is the policy that agents keep (COMPLIANCE_POLICY); empty for none.
	Compliance string
	Native     Native
	Metrics    *observe.Metrics
	Log        *slog.Logger
}

var errUnread = errors.New("the configuration of the injection has not been read yet")

// Watch keeps the injector. It is safe for concurrent use.
type Watch struct {
	o        Options
	mu       sync.Mutex
	injector *inject.Injector
	err      error // why there is none
}

// New returns a Watch without an injector; Run makes it.
func New(o Options) *Watch {
	return &Watch{o: o, err: errUnread}
}

// Injector returns the present injector, or why there is none.
func (w *Watch) Injector() (*inject.Injector, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.injector != nil {
		return w.injector, nil
	}
	return nil, w.err
}

// Ready returns nil once the ConfigMaps have been read, rightly or not: a mistake in them must not
// keep a replica from serving proxies.
func (w *Watch) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(w.err, errUnread) {
		return w.err
	}
	return nil
}

// Run follows the ConfigMaps until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	native, ok := w.native(ctx)
	if !ok {
		return
	}
	changed := make(chan struct{}, 1) // latest-value: the stores hold what there is
	config, own := w.follow(w.o.ConfigMap, changed)
	mesh, meshs := w.follow(w.o.MeshConfig, changed)
	var running sync.WaitGroup
	running.Go(func() { own.RunWithContext(ctx) })
	running.Go(func() { meshs.RunWithContext(ctx) })
	defer running.Wait()
	if !cache.WaitForCacheSync(ctx.Done(), own.HasSynced, meshs.HasSynced) {
		return
	}
	var last *inject.Texts
	for {
		texts := inject.Texts{
			Config: text(config, inject.ConfigKey), Values: text(config, inject.ValuesKey), Mesh: text(mesh, meshKey),
		}
		if last == nil || *last != texts {
			w.set(inject.Options{
				Namespace: w.o.Namespace, Revision: w.o.Revision, NativeSidecars: native, Compliance: w.o.Compliance,
			}, texts)
			last = &texts
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// set replaces the injector, if one can be made of the texts.
func (w *Watch) set(o inject.Options, texts inject.Texts) {
	injector, err := inject.New(o, texts)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.injector, w.err = injector, nil
		w.o.Log.Info("the configuration of the injection is read",
			"configMap", w.o.ConfigMap, "native", o.NativeSidecars)
		return
	}
	w.o.Metrics.Injection.ConfigErrors.Inc()
	w.err = err
	w.o.Log.Error("the configuration of the injection cannot be read", "configMap", w.o.ConfigMap,
		"meshConfigMap", w.o.MeshConfig, "staysInForce", w.injector != nil, "error", err)
}

// follow watches one ConfigMap.
func (w *Watch) follow(name string, changed chan<- struct{}) (cache.Store, cache.Controller) {
	tell := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(w.o.Core, "configmaps", w.o.Namespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, name)),
		ObjectType: &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { tell() },
			UpdateFunc: func(any, any) { tell() },
			DeleteFunc: func(any) { tell() },
		},
	})
}

// text returns the text under a key of the ConfigMap in a store, empty if there is none.
func text(in cache.Store, key string) string {
	for _, o := range in.List() {
		if of, ok := o.(*corev1.ConfigMap); ok {
			return of.Data[key]
		}
	}
	return ""
}

// native asks the API server for its version, if that decides. It is false if ctx ends.
func (w *Watch) native(ctx context.Context) (native, ok bool) {
	const pause = 2 * time.Second
	for w.o.Native == NativeAuto {
		var v version.Info
		raw, err := w.o.Core.Get().AbsPath("/version").Do(ctx).Raw()
		if err == nil {
			if v, err = versionOf(raw); err == nil {
				return runsNative(v), true
			}
		}
		w.o.Log.Warn("the API server's version is not known yet", "error", err)
		select {
		case <-ctx.Done():
			return false, false
		case <-time.After(pause):
		}
	}
	return w.o.Native == NativeOn, true
}

// runsNative reports whether all kubelets of a cluster run init containers that restart. They may
// be three minor versions behind the API server, and do it from 1.29 on.
func runsNative(v version.Info) bool {
	const supported = 29 + 3
	major, err := strconv.Atoi(v.Major)
	minor, minorErr := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	return err == nil && minorErr == nil && (major > 1 || minor >= supported)
}

func versionOf(raw []byte) (v version.Info, err error) {
	err = json.Unmarshal(raw, &v)
	return v, err
}
