package registration

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/lateen-mesh/lateen/internal/observe"
)

// InjectionName is the suffix of the names of webhooks that inject proxies.
const InjectionName = "injection.lateen.io"

// InjectionOptions are what RunInjection needs.
type InjectionOptions struct {
	Client typedv1.AdmissionregistrationV1Interface
	// Name is that of the MutatingWebhookConfiguration; it is not created.
	Name string
	// Bundle is as in Options.
	Bundle  func() (pem []byte, changed <-chan struct{})
	Metrics *observe.Metrics
	Log     *slog.Logger
}

// RunInjection keeps the roots in the configuration of the injection up to date until ctx ends. The
// failure policy is the installer's: a Pod without its proxy would be outside of the mesh, so it
// waits for one.
func RunInjection(ctx context.Context, o InjectionOptions) {
	changes := make(chan struct{}, 1) // latest-value: the store holds what there is
	tell := func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(
			o.Client.RESTClient(), "mutatingwebhookconfigurations", "",
			fields.OneTermEqualSelector(metav1.ObjectNameField, o.Name)),
		ObjectType: &admissionregistrationv1.MutatingWebhookConfiguration{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { tell() }, UpdateFunc: func(any, any) { tell() }, DeleteFunc: func(any) { tell() },
		},
	})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		informer.RunWithContext(ctx)
	}()
	defer func() { <-stopped }()
	wait := minRetry
	for {
		bundle, renewed := o.Bundle()
		var due <-chan time.Time
		if !o.trust(ctx, store, bundle) {
			due, wait = time.After(wait), min(2*wait, maxRetry)
		} else {
			wait = minRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-renewed:
		case <-due:
		}
	}
}

// trust writes the roots where they differ. It returns false if that has to be tried again.
func (o *InjectionOptions) trust(ctx context.Context, store cache.Store, bundle []byte) bool {
	for _, present := range store.List() {
		now, ok := present.(*admissionregistrationv1.MutatingWebhookConfiguration)
		if !ok || len(bundle) == 0 {
			continue
		}
		next, differs := now.DeepCopy(), false
		for i := range next.Webhooks {
			client := &next.Webhooks[i].ClientConfig
			differs = differs || !bytes.Equal(client.CABundle, bundle)
			client.CABundle = bundle
		}
		if !differs {
			continue
		}
		as := metav1.UpdateOptions{FieldManager: "lateen"}
		_, err := o.Client.MutatingWebhookConfigurations().Update(ctx, next, as)
		if apierrors.IsConflict(err) || ctx.Err() != nil {
			return true // the newer one comes
		}
		if err != nil {
			o.Metrics.Admission.ConfigUpdateErrors.WithLabelValues(
				strings.ToLower(string(apierrors.ReasonForError(err)))).Inc()
			o.Log.Error("the injection's configuration cannot be updated", "configuration", o.Name, "error", err)
			return false
		}
		o.Metrics.Admission.ConfigUpdates.Inc()
		o.Log.Info("the injection's configuration is updated", "configuration", o.Name)
	}
	return true
}
