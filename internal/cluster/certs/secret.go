package certs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
)

// SecretOptions say which Secret holds the certificate, and for which names it is.
type SecretOptions struct {
	Client          typedcorev1.CoreV1Interface
	Namespace, Name string
	// ServerNames are the DNS names of the certificate, the first of which is the main one.
	ServerNames []string
	Log         *slog.Logger
	Now         func() time.Time
}

// Secret is the Secret that holds the certificate for all replicas.
type Secret struct {
	o       SecretOptions
	changed chan struct{} // latest-value: somebody has written the Secret, or removed it
}

// NewSecret returns a Secret. It sends no request.
func NewSecret(o SecretOptions) *Secret { return &Secret{o: o, changed: make(chan struct{}, 1)} }

// Watch passes the content of the Secret to the Holder until ctx ends. If the Secret is gone or
// invalid, the last certificate stays in use.
func (s *Secret) Watch(ctx context.Context, h *Holder) {
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(
			s.o.Client.RESTClient(), "secrets", s.o.Namespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, s.o.Name)),
		ObjectType: &corev1.Secret{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { s.apply(o, h) },
			UpdateFunc: func(_, o any) { s.apply(o, h) },
			DeleteFunc: func(any) { s.signal() },
		},
	})
	controller.RunWithContext(ctx)
}

func (s *Secret) apply(o any, h *Holder) {
	defer s.signal()
	secret, ok := o.(*corev1.Secret)
	if !ok || len(secret.Data[certificateKey]) == 0 { // it was just made, and nobody has filled it
		return
	}
	if err := h.set(secret.Data[certificateKey], secret.Data[privateKey], secret.Data[bundleKey]); err != nil {
		s.o.Log.Error("the serving certificate is of no use; the last one stays in force", "secret",
			s.o.Namespace+"/"+s.o.Name, "error", err)
	}
}

func (s *Secret) signal() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

const (
	checkEvery = time.Hour // for what is to be renewed
	retryDelay = 5 * time.Second
)

// Maintain makes the certificate and renews it until ctx ends. The leader does it. If two replicas
// do it at a time, one of them gets a conflict.
func (s *Secret) Maintain(ctx context.Context) {
	for ctx.Err() == nil {
		again := checkEvery
		if err := s.reconcile(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Error("the serving certificate cannot be kept", "secret", s.o.Namespace+"/"+s.o.Name, "error", err)
			again = retryDelay
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.changed:
		}
		timer.Stop()
	}
}

func (s *Secret) reconcile(ctx context.Context) error {
	secrets := s.o.Client.Secrets(s.o.Namespace)
	present, err := secrets.Get(ctx, s.o.Name, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return err
	}
	var before map[string][]byte
	if !absent {
		before = present.Data
	}
	now, err := renew(before, s.o.ServerNames, s.o.Now())
	if err != nil {
		return err
	}
	if maps.EqualFunc(before, now, bytes.Equal) {
		return nil
	}
	s.o.Log.Info("a new serving certificate", "secret", s.o.Namespace+"/"+s.o.Name, "names", s.o.ServerNames)
	if absent {
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: s.o.Name, Namespace: s.o.Namespace}, Data: now,
		}, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			return fmt.Errorf("%w; the Secret was removed: apply the output of lateen manifest again", err)
		}
		return err
	}
	present = present.DeepCopy()
	present.Data = now
	_, err = secrets.Update(ctx, present, metav1.UpdateOptions{})
	return err
}
