package ca

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/lateen-mesh/lateen/internal/observe"
)

// The Secrets of an authority, which are Istio's.
const (
	// SelfSigned holds the root that Lateen makes.
	SelfSigned = "istio-ca-secret"
	// Plugged holds an authority of the operator's own. It takes precedence.
	Plugged = "cacerts"
	// SelfSignedType is the type of the Secret SelfSigned.
	SelfSignedType corev1.SecretType = "istio.io/ca-root"
)

// StoreOptions are what a Store needs.
type StoreOptions struct {
	Client    typedcorev1.CoreV1Interface
	Namespace string
	// Overlap is how long a new self-signed root is distributed before it signs. It should be no
	// shorter than the longest life of a workload's certificate.
	Overlap time.Duration
	// IgnoreRevoked leaves lists of revoked certificates out (PILOT_ENABLE_CA_CRL=false).
	IgnoreRevoked bool
	Metrics       *observe.Metrics
	Log           *slog.Logger
	Now           func() time.Time
}

// Store keeps the authority in the Secrets of the root namespace, for all replicas.
type Store struct {
	o      StoreOptions
	holder *Holder
	// dirty and changed are latest-value: a Secret was written, for Run and for Maintain.
	dirty, changed chan struct{}

	mu      sync.Mutex
	secrets map[string]map[string][]byte // as last seen, by name
	source  string                       // the Secret of the authority in use
	used    map[string][]byte            // its content
}

// NewStore returns a Store that passes authorities to a Holder. It sends no request.
func NewStore(h *Holder, o StoreOptions) *Store {
	return &Store{
		o: o, holder: h, dirty: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		secrets: map[string]map[string][]byte{},
	}
}

const (
	checkEvery = time.Hour // for what is due, and for what was not valid yet
	retryDelay = 5 * time.Second
	endsSoon   = 24 * time.Hour
)

// Run watches both Secrets and passes the authority to the Holder until ctx ends. Nothing is passed
// before both are known, so that the self-signed one is not used for a moment where one is plugged
// in. One that is invalid or gone changes nothing.
func (s *Store) Run(ctx context.Context) {
	var watches sync.WaitGroup
	defer watches.Wait()
	var synced []cache.InformerSynced
	for _, name := range []string{Plugged, SelfSigned} {
		controller := s.watch(name)
		watches.Go(func() { controller.RunWithContext(ctx) })
		synced = append(synced, controller.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return
	}
	for ctx.Err() == nil {
		s.load()
		wait(ctx, s.dirty, s.checkExpiry())
	}
}

// checkExpiry reports an authority that has expired. It returns when to look again.
func (s *Store) checkExpiry() time.Duration {
	authority, _, err := s.holder.Get()
	if err != nil {
		return checkEvery
	}
	left := authority.Expires().Sub(s.o.Now())
	if left > 0 {
		return min(left+time.Second, s.checkRevoked(authority))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Log.Error("the certificate authority has expired; no certificate is issued, and those that it has issued "+
		"expire with it", "secret", s.o.Namespace+"/"+s.source, "expired", authority.Expires().UTC())
	return checkEvery
}

// checkRevoked reports lists of revoked certificates that have ended, or do so before long. It
// returns when to look again.
func (s *Store) checkRevoked(a *Authority) time.Duration {
	ends := a.revoked.ends
	if ends.IsZero() {
		return checkEvery
	}
	secret := []any{"secret", s.o.Namespace + "/" + Plugged, "key", RevokedKey, "ends", ends.UTC()}
	left := ends.Sub(s.o.Now())
	switch {
	case left <= 0:
		s.o.Log.Error("the lists of revoked certificates have ended; proxies refuse all certificates until there "+
			"are new ones", secret...)
		return checkEvery
	case left < endsSoon:
		s.o.Log.Warn("the lists of revoked certificates end soon; proxies then refuse all certificates", secret...)
	}
	return min(left+time.Second, checkEvery)
}

func (s *Store) watch(name string) cache.Controller {
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(s.o.Client.RESTClient(), "secrets", s.o.Namespace,
			fields.OneTermEqualSelector(metav1.ObjectNameField, name)),
		ObjectType: &corev1.Secret{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { s.saw(name, o) },
			UpdateFunc: func(_, o any) { s.saw(name, o) },
			DeleteFunc: func(any) { s.saw(name, nil) },
		},
	})
	return controller
}

// saw notes the content of a Secret, or that it is gone.
func (s *Store) saw(name string, o any) {
	s.mu.Lock()
	delete(s.secrets, name)
	if secret, ok := o.(*corev1.Secret); ok {
		s.secrets[name] = secret.Data
	}
	s.mu.Unlock()
	signal(s.dirty)
	signal(s.changed)
}

// load passes on the authority that the Secrets have, if it is valid and another.
func (s *Store) load() {
	s.mu.Lock()
	defer s.mu.Unlock()
	source := Plugged
	data, ok := s.secrets[Plugged]
	if !ok {
		source, data = SelfSigned, s.secrets[SelfSigned]
	}
	switch {
	case source == SelfSigned && s.source == Plugged:
		s.o.Log.Error("the plugged-in certificate authority is gone; it stays in use until this process ends",
			"secret", s.o.Namespace+"/"+Plugged)
		return
	case source == SelfSigned && formOf(data) == "": // nobody has made or filled it yet
		if s.source == SelfSigned {
			s.o.Log.Error("the root of the certificate authority is gone; it stays in use and is written again",
				"secret", s.o.Namespace+"/"+SelfSigned)
		}
		return
	case s.source == source && maps.EqualFunc(s.used, data, bytes.Equal):
		return
	}
	authority, err := s.read(data)
	if err != nil {
		s.o.Metrics.CA.Rejected.WithLabelValues(source).Inc()
		meanwhile := "the last one stays in use"
		if s.source == "" {
			meanwhile = "no certificate is issued, and port 15012 has none"
		}
		s.o.Log.Error("the certificate authority is invalid; "+meanwhile, "secret", s.o.Namespace+"/"+source,
			"error", err)
		return
	}
	s.use(authority, source, data)
}

// read returns the authority that a Secret has.
func (s *Store) read(data map[string][]byte) (*Authority, error) {
	keys, err := keysIn(data)
	if err != nil {
		return nil, err
	}
	return New(keys, s.o.Now())
}

// revocations returns the lists of revoked certificates in a Secret. If they cannot be used, those
// from before stay, unless they are another authority's.
func (s *Store) revocations(a *Authority, source string, data map[string][]byte) revocations {
	text := data[RevokedKey]
	if s.o.IgnoreRevoked || source != Plugged || len(bytes.TrimSpace(text)) == 0 {
		return revocations{}
	}
	lists, err := a.readRevocations(text, s.o.Now())
	if err == nil {
		return lists
	}
	s.o.Metrics.CA.Rejected.WithLabelValues(source).Inc()
	meanwhile := "proxies keep those that they have, and client certificates prove nobody at port 15012"
	lists = revocations{refused: true}
	if last, _, e := s.holder.Get(); e == nil && len(last.revoked.text) > 0 {
		if kept, e := a.readRevocations(last.revoked.text, s.o.Now()); e == nil {
			lists, meanwhile = kept, "the last ones stay in use"
		}
	}
	s.o.Log.Error("the lists of revoked certificates are invalid; "+meanwhile,
		"secret", s.o.Namespace+"/"+source, "key", RevokedKey, "error", err)
	return lists
}

// use passes an authority on. The caller holds mu.
func (s *Store) use(a *Authority, source string, data map[string][]byte) {
	secret := s.o.Namespace + "/" + source
	if last, _, err := s.holder.Get(); err == nil && !a.verifiedBy(last) {
		s.o.Log.Warn("clients that have only the roots of the last authority do not verify the new one's "+
			"certificates; distribute the new root first, by adding it to "+rootsKeyOf(data), "secret", secret)
	}
	form := formOf(data)
	if form == tlsForm && len(data[certificateKey]) > 0 {
		s.o.Log.Warn("a certificate authority has both forms; "+tlsCertificateKey+" counts, not "+certificateKey,
			"secret", secret)
	}
	a = a.withRevocations(s.revocations(a, source, data))
	s.source, s.used = source, data
	s.o.Metrics.CA.RootExpiry.Set(float64(a.RootExpires().Unix()))
	s.o.Metrics.CA.ChainExpiry.Set(float64(a.Expires().Unix()))
	s.o.Log.Info("a certificate authority is in use", "secret", secret, "form", form,
		"name", a.keys.certificate.Subject.String(), "expires", a.Expires().UTC(), "roots", len(a.keys.roots))
	s.holder.Set(a)
}

// verifiedBy reports whether clients that have the roots of another authority verify this one.
func (a *Authority) verifiedBy(other *Authority) bool {
	for _, r := range slices.Concat(a.keys.intermediates, a.keys.roots[len(a.keys.roots)-1:]) {
		if contains(other.keys.roots, r) {
			return true
		}
		for _, root := range other.keys.roots {
			if r.CheckSignatureFrom(root) == nil {
				return true
			}
		}
	}
	return false
}

// Maintain makes the self-signed root and rotates it until ctx ends. The leader does it. If two
// replicas do it at a time, one of them gets a conflict, and both read what the other has written.
func (s *Store) Maintain(ctx context.Context) {
	for ctx.Err() == nil {
		again, err := s.reconcile(ctx)
		if err != nil && ctx.Err() == nil {
			s.o.Log.Error("the root of the certificate authority cannot be kept", "secret",
				s.o.Namespace+"/"+SelfSigned, "error", err)
			again = retryDelay
		}
		wait(ctx, s.changed, again)
	}
}

// reconcile writes what is due. It returns when to look again, if there is no error.
func (s *Store) reconcile(ctx context.Context) (again time.Duration, err error) {
	secrets := s.o.Client.Secrets(s.o.Namespace)
	_, err = secrets.Get(ctx, Plugged, metav1.GetOptions{})
	if err == nil || s.plugged() {
		return checkEvery, nil
	}
	if !apierrors.IsNotFound(err) {
		return 0, err
	}
	present, err := secrets.Get(ctx, SelfSigned, metav1.GetOptions{})
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return 0, err
	}
	if absent {
		present = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: SelfSigned, Namespace: s.o.Namespace}, Type: SelfSignedType,
		}
	}
	before := present.Data
	if formOf(before) == "" {
		before = s.lastSelfSigned()
	}
	if formOf(before) == tlsForm { // whoever writes it renews it
		return checkEvery, nil
	}
	now := s.o.Now()
	due, err := rotation{s.o.Overlap}.next(before, now)
	if err != nil {
		return 0, err
	}
	again = untilSwitch(due, now)
	if maps.EqualFunc(present.Data, due, bytes.Equal) {
		return again, nil
	}
	present.Data = due
	return again, s.write(ctx, present, absent)
}

// untilSwitch returns how long to wait until the next root signs, at most checkEvery.
func untilSwitch(data map[string][]byte, now time.Time) time.Duration {
	from, err := switchTime(data)
	if err != nil || from.IsZero() {
		return checkEvery
	}
	return min(max(from.Sub(now), time.Second), checkEvery)
}

// write writes the Secret, unless another replica has done so.
func (s *Store) write(ctx context.Context, secret *corev1.Secret, absent bool) (err error) {
	secrets := s.o.Client.Secrets(s.o.Namespace)
	if absent {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		signal(s.changed) // it may be filled by now, or not
		return nil
	case absent && apierrors.IsForbidden(err):
		return fmt.Errorf("%w; the Secret was removed: apply the output of lateen manifest again", err)
	case err == nil:
		s.o.Log.Info("the root of the certificate authority is written", "secret", s.o.Namespace+"/"+SelfSigned,
			"next", string(secret.Data[nextFromKey]))
	}
	return err
}

// lastSelfSigned returns the content of the Secret SelfSigned that is in use; nil if there is none.
// A Secret that was removed is filled with it, since a new root would break the mesh.
func (s *Store) lastSelfSigned() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source != SelfSigned {
		return nil
	}
	return s.used
}

// plugged reports whether a plugged-in authority is in use.
func (s *Store) plugged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source == Plugged
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait waits for a signal, a time or the end of ctx.
func wait(ctx context.Context, signalled <-chan struct{}, longest time.Duration) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-signalled:
	}
}
