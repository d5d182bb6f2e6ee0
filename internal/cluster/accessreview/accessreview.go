package accessreview

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Reviewer asks by SubjectAccessReview (authorization.k8s.io/v1). It is safe for concurrent use.
type Reviewer struct {
	client rest.Interface
	// slots limits the reviews in flight. Further callers wait until their context ends.
	slots chan struct{}
	cache *cache
}

const (
	maxConcurrent = 16
	// reviewTimeout is how long the API server may take.
	reviewTimeout = 10 * time.Second
)

// New returns a Reviewer.
func New(config *rest.Config) (*Reviewer, error) {
	scheme := runtime.NewScheme()
	if err := authorizationv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	own := rest.CopyConfig(config)
	own.GroupVersion, own.APIPath, own.QPS = &authorizationv1.SchemeGroupVersion, "/apis", -1
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the Kubernetes client: %w", err)
	}
	return &Reviewer{client: client, slots: make(chan struct{}, maxConcurrent), cache: newCache(time.Now)}, nil
}

// MayReadSecrets reports whether a service account may list the Secrets of its namespace, which is
// what istiod asks for. The error says why the API server could not be asked.
func (r *Reviewer) MayReadSecrets(ctx context.Context, namespace, serviceAccount string) (bool, error) {
	key := account{namespace, serviceAccount}
	if may, known := r.cache.get(key); known {
		return may, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-r.slots }()
	var answer authorizationv1.SubjectAccessReview
	err := r.client.Post().Resource("subjectaccessreviews").Body(key.question()).Do(ctx).Into(&answer)
	if err != nil {
		return false, fmt.Errorf("the API server cannot be asked what service account %s in namespace %s may read: %w",
			serviceAccount, namespace, err)
	}
	r.cache.put(key, answer.Status.Allowed)
	return answer.Status.Allowed, nil
}

// question is about the account as the API server knows it, with the groups that it is always in.
func (a account) question() *authorizationv1.SubjectAccessReview {
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + a.namespace + ":" + a.name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + a.namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: a.namespace, Verb: "list", Resource: "secrets",
		},
	}}
}
