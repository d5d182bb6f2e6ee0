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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	typedv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/observe"
)

// InjectionOptions are what RunInjection needs.
type InjectionOptions struct {
	Client typedv1.AdmissionregistrationV1Interface
	// Revision is the value of the label istio.io/rev of the MutatingWebhookConfigurations: that of
	// the revision, and those of its tags, whoever has made them. None is created.
	Revision string
	// Service is the address of the control plane. Webhooks of other addresses are left alone.
	Service types.NamespacedName
	// Bundle is as in Options.
	Bundle  func() (pem []byte, changed <-chan struct{})
	Metrics *observe.Metrics
	Log     *slog.Logger
}

// RunInjection keeps the roots in the configurations of the injection up to date until ctx ends.
// The failure policy is the installer's: a Pod without its proxy would be outside of the mesh, so
// it waits for one.
func RunInjection(ctx context.Context, o InjectionOptions) {
	changes := make(chan struct{}, 1) // latest-value: the store holds what there is
	tell := func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(
			o.Client.RESTClient(), "mutatingwebhookconfigurations", "", func(asked *metav1.ListOptions) {
				asked.LabelSelector = labels.SelectorFromSet(labels.Set{kinds.RevisionLabel: o.Revision}).String()
			}),
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
	done := true
	for _, present := range store.List() {
		now, ok := present.(*admissionregistrationv1.MutatingWebhookConfiguration)
		if next, differs := o.trusting(now, bundle); ok && differs && !o.update(ctx, next) {
			done = false
		}
	}
	return done
}

// trusting returns a configuration with the roots, and whether it differs from the present one.
func (o *InjectionOptions) trusting(
	present *admissionregistrationv1.MutatingWebhookConfiguration, bundle []byte,
) (next *admissionregistrationv1.MutatingWebhookConfiguration, differs bool) {
	if present == nil || len(bundle) == 0 {
		return nil, false
	}
	next = present.DeepCopy()
	for i := range next.Webhooks {
		client := &next.Webhooks[i].ClientConfig
		own := client.Service != nil && client.Service.Name == o.Service.Name &&
			client.Service.Namespace == o.Service.Namespace
		if own && !bytes.Equal(client.CABundle, bundle) {
			client.CABundle, differs = bundle, true
		}
	}
	return next, differs
}

// update writes a configuration. It returns false if that has to be tried again.
func (o *InjectionOptions) update(ctx context.Context, next *admissionregistrationv1.MutatingWebhookConfiguration,
) bool {
	as := metav1.UpdateOptions{FieldManager: "lateen"}
	_, err := o.Client.MutatingWebhookConfigurations().Update(ctx, next, as)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || ctx.Err() != nil {
		return true // the newer one comes, or none does
	}
	if err != nil {
		o.Metrics.Admission.ConfigUpdateErrors.WithLabelValues(
			strings.ToLower(string(apierrors.ReasonForError(err)))).Inc()
		o.Log.Error("the injection's configuration cannot be updated", "configuration", next.Name, "error", err)
		return false
	}
	o.Metrics.Admission.ConfigUpdates.Inc()
	o.Log.Info("the injection's configuration is updated", "configuration", next.Name)
	return true
}
