package status

import (
	"cmp"
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// A route may cease to be Lateen's while no replica leads: its Gateway goes, or gets another class.
// The next leader finds Lateen's entry in its status.parents and removes it. istiod writes
// entries of the same controller, so one stays while its Gateway exists and is another control
// plane's: of another revision, or of a class of another of Istio's controllers.

// ownParents returns the Gateways and ListenerSets of the entries that Lateen's controller has in
// the status of a route, each once; none if one of the entries is for a parent of another kind.
func (l *liveAttachment) ownParents() []source.Key {
	var all []source.Key
	seen := map[source.Key]bool{}
	for _, p := range l.Status.Parents {
		k := source.Key{Kind: kinds.KubernetesGateway, Namespace: l.Metadata.Namespace, Name: string(p.ParentRef.Name)}
		if p.ParentRef.Namespace != nil {
			k.Namespace = string(*p.ParentRef.Namespace)
		}
		switch kind := p.ParentRef.Kind; {
		case p.ControllerName != model.GatewayController:
			continue
		case kind == nil || *kind == "Gateway":
		case *kind == "ListenerSet":
			k.Kind = kinds.ListenerSet
		default:
			return nil // istiod serves parents of other kinds: its entries would go too
		}
		if !seen[k] {
			seen[k] = true
			all = append(all, k)
		}
	}
	return all
}

// removeOrphans decides about routes that are not Lateen's, by the parents of which their statuses
// have entries: each parent is asked for once. It returns false if ctx ends before.
func (w *AttachmentWriter) removeOrphans(ctx context.Context, routes map[source.Key][]source.Key) bool {
	keep, all := map[source.Key]bool{}, map[source.Key]bool{}
	for parent, of := range routes {
		foreign := false
		ask := func() (err error) {
			foreign, err = w.isForeign(ctx, parent)
			return err
		}
		if !w.retryList(ctx, parent.Kind, ask) {
			return false
		}
		for _, k := range of {
			all[k] = true
			keep[k] = keep[k] || foreign
		}
	}
	for k := range all {
		if !keep[k] {
			w.known.remember(k, writtenStatus{})
			w.orphans = append(w.orphans, k)
		}
	}
	return true
}

// isForeign reports whether a parent exists and is another control plane's: it is not read here,
// its class belongs to another of Istio's controllers, or it is a ListenerSet of such a Gateway.
func (w *AttachmentWriter) isForeign(ctx context.Context, parent source.Key) (bool, error) {
	present := &liveParent{}
	err := w.API.read(ctx, parent, present)
	_, known := w.Attachments.get(parent)
	spec := &present.Spec
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		return true, nil // what may not be read is left alone
	case err != nil:
		return false, err
	case parent.Kind == kinds.GatewayClass:
		return strings.HasPrefix(spec.Controller, "istio.io/") && spec.Controller != model.GatewayController, nil
	case !known:
		return true, nil
	case parent.Kind == kinds.ListenerSet:
		namespace := cmp.Or(spec.Parent.Namespace, parent.Namespace)
		gateway := source.Key{Kind: kinds.KubernetesGateway, Namespace: namespace, Name: spec.Parent.Name}
		return w.isForeign(ctx, gateway)
	}
	return w.isForeign(ctx, source.Key{Kind: kinds.GatewayClass, Name: spec.Class})
}

// liveParent is what says whose a GatewayClass, a Gateway or a ListenerSet is.
type liveParent struct {
	Spec struct {
		Controller string `json:"controllerName"`
		Class      string `json:"gatewayClassName"`
		Parent     struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"parentRef"`
	} `json:"spec"`
}
