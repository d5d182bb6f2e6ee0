package registration

import (
	"bytes"
	"context"
	"fmt"
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

// Options are what Run needs.
type Options struct {
	Client typedv1.AdmissionregistrationV1Interface
	// Name is that of the ValidatingWebhookConfiguration; it is not created.
	Name string
	// Bundle returns the roots in PEM, and a channel that is closed when they change. While it is
	// empty, the roots in the configuration are left alone.
	Bundle func() (pem []byte, changed <-chan struct{})
	// Policy is the failure policy once the webhook answers: Fail, so that no object is stored
	// unchecked, or Ignore.
	Policy admissionregistrationv1.FailurePolicyType
	// Answers returns nil once the API server refuses an invalid object because of this webhook.
	Answers func(ctx context.Context) error
	Metrics *observe.Metrics
	Log     *slog.Logger
}

// The shortest and the longest pause between attempts.
const (
	minRetry = time.Second
	maxRetry = 15 * time.Second
)

// controller reconciles one configuration. One goroutine owns its state.
type controller struct {
	Options
	present chan *admissionregistrationv1.ValidatingWebhookConfiguration // latest-value
}

// Run keeps the configuration up to date until ctx ends. Once the webhook has answered, the policy
// stays Fail, also if no replica answers any more: keeping the webhook available is its
// Deployment's task, and admitting everything at each crash would make it worthless. Only the last
// replica that stops in good order sets Ignore (Yield).
func Run(ctx context.Context, o Options) {
	c := &controller{Options: o, present: make(chan *admissionregistrationv1.ValidatingWebhookConfiguration, 1)}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(
			o.Client.RESTClient(), "validatingwebhookconfigurations", "",
			fields.OneTermEqualSelector(metav1.ObjectNameField, o.Name)),
		ObjectType: &admissionregistrationv1.ValidatingWebhookConfiguration{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    c.setPresent,
			UpdateFunc: func(_, now any) { c.setPresent(now) },
			DeleteFunc: func(any) { c.setPresent(nil) },
		},
	})
	watching, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		informer.RunWithContext(watching)
	}()
	c.run(ctx)
	stop()
	<-stopped
}

// setPresent records the present configuration, nil when it is gone. Only the informer calls it.
func (c *controller) setPresent(o any) {
	now, _ := o.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	select {
	case <-c.present:
	default:
	}
	c.present <- now
}

func (c *controller) run(ctx context.Context) {
	var present *admissionregistrationv1.ValidatingWebhookConfiguration
	wait := minRetry
	for {
		bundle, changed := c.Bundle()
		timer := time.NewTimer(wait)
		due := timer.C
		if present == nil || c.upToDate(present, bundle) {
			due = nil
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case present = <-c.present:
			wait = minRetry
		case <-changed:
			wait = minRetry
		case <-due:
			wait = min(2*wait, maxRetry)
		}
		timer.Stop()
		if present != nil {
			c.step(ctx, present)
		}
	}
}

// upToDate reports whether nothing is left to do.
func (c *controller) upToDate(present *admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte) bool {
	for i := range present.Webhooks {
		w := &present.Webhooks[i]
		if len(bundle) > 0 && !bytes.Equal(w.ClientConfig.CABundle, bundle) || w.FailurePolicy == nil ||
			*w.FailurePolicy != c.Policy {
			return false
		}
	}
	return true
}

// step does what can be done now. What it writes comes back as the present configuration.
func (c *controller) step(ctx context.Context, present *admissionregistrationv1.ValidatingWebhookConfiguration) {
	bundle, _ := c.Bundle()
	if c.upToDate(present, bundle) {
		return
	}
	next := present.DeepCopy()
	trusted, policy := true, c.Policy
	for i := range next.Webhooks {
		w := &next.Webhooks[i]
		if len(bundle) > 0 && !bytes.Equal(w.ClientConfig.CABundle, bundle) {
			w.ClientConfig.CABundle, trusted = bundle, false
		}
	}
	if policy == admissionregistrationv1.Fail {
		// Until the API server has the roots, and has been seen to ask, it must not insist.
		if err := c.probe(ctx, trusted); err != nil {
			c.Log.Info("the webhook is not asked yet", "configuration", c.Name, "reason", err)
			policy = ""
		}
	}
	if trusted && policy == "" {
		return
	}
	if policy != "" {
		for i := range next.Webhooks {
			next.Webhooks[i].FailurePolicy = &policy
		}
	}
	c.update(ctx, next, policy)
}

func (c *controller) probe(ctx context.Context, trusted bool) error {
	if !trusted {
		return fmt.Errorf("the API server has to learn its certificate first")
	}
	return c.Answers(ctx)
}

func (c *controller) update(
	ctx context.Context, next *admissionregistrationv1.ValidatingWebhookConfiguration,
	policy admissionregistrationv1.FailurePolicyType,
) {
	_, err := c.Client.ValidatingWebhookConfigurations().Update(ctx, next, metav1.UpdateOptions{FieldManager: "lateen"})
	switch {
	case err == nil:
		c.Metrics.Admission.ConfigUpdates.Inc()
		c.Log.Info("the webhook's configuration is updated", "configuration", c.Name, "failurePolicy", string(policy))
	case apierrors.IsConflict(err): // the newer one comes
	case ctx.Err() == nil:
		c.Metrics.Admission.ConfigUpdateErrors.WithLabelValues(
			strings.ToLower(string(apierrors.ReasonForError(err))),
		).Inc()
		c.Log.Error("the webhook's configuration cannot be updated", "configuration", c.Name, "error", err)
	}
}
