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

// Secret is where the certificate is kept for all replicas.
type Secret struct {
	o       SecretOptions
	touched chan struct{} // latest-value: somebody has written the Secret, or removed it
}

// NewSecret does nothing yet.
func NewSecret(o SecretOptions) *Secret { return &Secret{o: o, touched: make(chan struct{}, 1)} }

// Watch puts in force what stands in the Secret, until ctx ends. When the Secret is gone or of no
// use, the last certificate stays in force.
func (s *Secret) Watch(ctx context.Context, h *Holder) {
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(
			s.o.Client.RESTClient(), "secrets", s.o.Namespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, s.o.Name)),
		ObjectType: &corev1.Secret{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { s.take(o, h) },
			UpdateFunc: func(_, o any) { s.take(o, h) },
			DeleteFunc: func(any) { s.touch() },
		},
	})
	controller.RunWithContext(ctx)
}

func (s *Secret) take(o any, h *Holder) {
	defer s.touch()
	secret, ok := o.(*corev1.Secret)
	if !ok || len(secret.Data[certificateKey]) == 0 { // it was just made, and nobody has filled it
		return
	}
	if err := h.set(secret.Data[certificateKey], secret.Data[privateKey], secret.Data[bundleKey]); err != nil {
		s.o.Log.Error("the serving certificate is of no use; the last one stays in force", "secret",
			s.o.Namespace+"/"+s.o.Name, "error", err)
	}
}

func (s *Secret) touch() {
	select {
	case s.touched <- struct{}{}:
	default:
	}
}

const (
	lookEvery  = time.Hour // for what is to be renewed
	retryAfter = 5 * time.Second
)

// Keep makes the certificate and renews it, until ctx ends. One replica does it at a time; another
// that does it too is told by a conflict.
func (s *Secret) Keep(ctx context.Context) {
	for ctx.Err() == nil {
		again := lookEvery
		if err := s.keep(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Error("the serving certificate cannot be kept", "secret", s.o.Namespace+"/"+s.o.Name, "error", err)
			again = retryAfter
		}
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.touched:
		}
		timer.Stop()
	}
}

func (s *Secret) keep(ctx context.Context) error {
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
