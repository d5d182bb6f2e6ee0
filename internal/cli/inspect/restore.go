package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// versionsOf returns the objects as they are now in the API server, before anybody is asked: what
// changes after that is not overwritten. One that was there already at the time in question is not
// deleted, and one that is there, though the control plane does not read it, not created.
func (a *rawAPI) versionsOf(ctx context.Context, earlier *page.Restoration) ([]metav1.ObjectMeta, error) {
	all := make([]metav1.ObjectMeta, len(earlier.Objects))
	for i := range earlier.Objects {
		o := &earlier.Objects[i]
		if o.Verb == page.Unknown {
			continue
		}
		text, err := a.get(ctx, pathOf(o)+"/"+url.PathEscape(o.Name))
		var status *statusError
		switch {
		case o.Verb == page.Created && errors.As(err, &status) && status.code == http.StatusNotFound:
			continue
		case err != nil:
			return nil, fmt.Errorf("%s: %w", nameOf(o), err)
		case o.Verb == page.Created:
			return nil, fmt.Errorf("%s is there, and the control plane does not read it any more: "+
				"look at its spec, its label istio.io/rev and the discovery selectors", nameOf(o))
		}
		var live metav1.PartialObjectMetadata
		if err := json.Unmarshal(text, &live); err != nil {
			return nil, fmt.Errorf("%s: %w", nameOf(o), err)
		}
		if o.Verb == page.Deleted && !live.CreationTimestamp.After(earlier.At) {
			return nil, fmt.Errorf("%s is of %s: it was there already", nameOf(o), live.CreationTimestamp)
		}
		all[i] = live.ObjectMeta
	}
	return all, nil
}

// asApplied returns the objects as they will be: those that change keep their labels and
// annotations.
func asApplied(earlier *page.Restoration, live []metav1.ObjectMeta) *page.Restoration {
	will := *earlier
	will.Objects = slices.Clone(earlier.Objects)
	for i := range will.Objects {
		if o := &will.Objects[i]; o.Verb == page.Changes {
			o.Labels, o.Annotations = live[i].Labels, live[i].Annotations
		}
	}
	return &will
}

// pathOf is the path of the objects of a kind and namespace.
func pathOf(o *page.EarlierObject) string {
	path := "/apis/" + o.APIVersion
	if o.Namespace != "" {
		path += "/namespaces/" + url.PathEscape(o.Namespace)
	}
	return path + "/" + pluralIn(o.Kind, o.APIVersion)
}

// restore makes an object what it was, if it is still what live says.
func (a *rawAPI) restore(ctx context.Context, o *page.EarlierObject, live metav1.ObjectMeta) error {
	path := pathOf(o)
	one, manager := path+"/"+url.PathEscape(o.Name), "?fieldManager="+rollbackManager
	var body []byte
	var err error
	switch o.Verb {
	case page.Deleted:
		if body, err = json.Marshal(metav1.DeleteOptions{
			TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			Preconditions: &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion},
		}); err == nil {
			_, err = a.do(ctx, http.MethodDelete, one, "application/json", body)
		}
	case page.Created:
		var text string
		if text, err = manifestOf(o); err == nil {
			_, err = a.do(ctx, http.MethodPost, path+manager, "application/yaml", []byte(text))
		}
	case page.Changes:
		if body, err = patchOf(o, live.ResourceVersion); err == nil {
			_, err = a.do(ctx, http.MethodPatch, one+manager, "application/json-patch+json", body)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", nameOf(o), err)
	}
	return nil
}
