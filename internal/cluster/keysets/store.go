package keysets

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
)

// Store is the ConfigMap.
type Store struct {
	Client          typedcorev1.ConfigMapsGetter
	Namespace, Name string
}

// Write replaces the content of the ConfigMap, and makes it if there is none. Nobody else writes
// it, so Write does not look at what was there.
func (s Store) Write(ctx context.Context, entries []jwks.Entry) error {
	maps := s.Client.ConfigMaps(s.Namespace)
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Namespace: s.Namespace}, Data: jwks.Encode(entries),
	}
	_, err := maps.Update(ctx, object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, object, metav1.CreateOptions{})
	}
	return err
}
