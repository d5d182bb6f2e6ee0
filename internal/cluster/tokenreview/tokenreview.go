package tokenreview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Account is the owner of a token.
type Account struct {
	Namespace, ServiceAccount string
	// Pod is the Pod that the token is bound to; empty if there is none.
	Pod string
	// Expires is when the token expires; zero if it does not say.
	Expires time.Time
}

// ErrRefused means that the token proves nothing: it is expired, forged, or for another audience.
var ErrRefused = errors.New("the token is refused")

// Reviewer verifies tokens by the API server's TokenReview (authentication.k8s.io/v1). It is safe
// for concurrent use.
type Reviewer struct {
	client    rest.Interface
	audiences []string
	// slots limits the reviews in flight. Further callers wait until their context ends.
	slots chan struct{}
	cache *cache
	now   func() time.Time
}

const (
	maxConcurrent = 32
	// reviewTimeout is how long the API server may take.
	reviewTimeout = 10 * time.Second
	podNameExtra  = "authentication.kubernetes.io/pod-name"
)

// New returns a Reviewer that accepts tokens for any of the audiences.
func New(config *rest.Config, audiences []string) (*Reviewer, error) {
	scheme := runtime.NewScheme()
	if err := authenticationv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	own.GroupVersion, own.APIPath, own.QPS = &authenticationv1.SchemeGroupVersion, "/apis", -1
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the Kubernetes client: %w", err)
	}
	return &Reviewer{
		client:    client,
		audiences: audiences,
		slots:     make(chan struct{}, maxConcurrent),
		cache:     newCache(time.Now),
		now:       time.Now,
	}, nil
}

// Review returns the owner of a token. The error wraps ErrRefused, or says why the API server could
// not be asked.
func (r *Reviewer) Review(ctx context.Context, token string) (Account, error) {
	hash := hashOf(token)
	if a, known := r.cache.account(hash); known {
		return a, nil
	}
	if err := r.screen(token); err != nil {
		return Account{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return Account{}, ctx.Err()
	}
	defer func() { <-r.slots }()
	a, err := r.ask(ctx, token)
	switch {
	case err == nil:
		said, _ := claimsOf(token)
		a.Expires = said.expires()
		r.cache.accept(hash, a, a.Expires)
	case errors.Is(err, ErrRefused):
		r.cache.refuse(hash)
	}
	return a, err
}

func (r *Reviewer) ask(ctx context.Context, token string) (Account, error) {
	question := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{
		Token:     token,
		Audiences: r.audiences,
	}}
	// of its own: it repeats the question, and would be decoded into our audiences
	var answer authenticationv1.TokenReview
	err := r.client.Post().Resource("tokenreviews").Body(question).Do(ctx).Into(&answer)
	if err != nil {
		return Account{}, fmt.Errorf("the API server cannot be asked about a token: %w", err)
	}
	s := answer.Status
	switch {
	case !s.Authenticated:
		return Account{}, ErrRefused
	case !slices.ContainsFunc(s.Audiences, r.accepts):
		return Account{}, ErrRefused // a server that knows no audiences has not checked them
	}
	return accountOf(&s.User)
}

// accountOf parses the name that Kubernetes gives to service accounts. Other users, such as people,
// are no workloads.
func accountOf(u *authenticationv1.UserInfo) (Account, error) {
	rest, ok := strings.CutPrefix(u.Username, "system:serviceaccount:")
	namespace, name, both := strings.Cut(rest, ":")
	if !ok || !both || namespace == "" || name == "" {
		return Account{}, ErrRefused
	}
	a := Account{Namespace: namespace, ServiceAccount: name}
	if pod := u.Extra[podNameExtra]; len(pod) == 1 {
		a.Pod = pod[0]
	}
	return a, nil
}
