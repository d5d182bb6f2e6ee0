package convert

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

// accepted is the condition of an object that is in force.
func accepted(reason string) model.Condition { return model.Condition{Status: true, Reason: reason} }

// gatewayClass keeps the classes of other controllers too: a built-in class of that name is theirs.
func (r *reader) gatewayClass(in *gatewayv1.GatewayClass) []Object {
	c := &model.GatewayClass{
		Meta:       r.meta,
		Controller: string(in.Spec.ControllerName),
		Accepted:   accepted(string(gatewayv1.GatewayClassReasonAccepted)),
	}
	ref := in.Spec.ParametersRef
	if ref == nil || c.Controller != model.GatewayController {
		return []Object{c}
	}
	if ref.Group != "" || kinds.Kind(ref.Kind) != kinds.ConfigMap || ref.Namespace == nil || !isObjectName(ref.Name) {
		const want = "a ConfigMap with its namespace"
		r.fail("spec.parametersRef", ref.Name, "names no parameters", want)
		c.Accepted = model.Condition{
			Reason:  string(gatewayv1.GatewayClassReasonInvalidParameters),
			Message: "spec.parametersRef names no parameters; want " + want,
		}
		return []Object{c}
	}
	c.Parameters = model.ObjectName{Namespace: string(*ref.Namespace), Name: ref.Name}
	return []Object{c}
}

// referenceGrant reads who may name what. An entry that names nothing allows nothing.
func (r *reader) referenceGrant(in *gatewayv1.ReferenceGrant) []Object {
	g := &model.ReferenceGrant{Meta: r.meta}
	for _, from := range in.Spec.From {
		g.From = append(g.From, model.GrantFrom{
			Group: string(from.Group), Kind: string(from.Kind), Namespace: string(from.Namespace),
		})
	}
	for _, to := range in.Spec.To {
		t := model.GrantTo{Group: string(to.Group), Kind: string(to.Kind)}
		if to.Name != nil {
			t.Name = string(*to.Name)
		}
		g.To = append(g.To, t)
	}
	if len(g.From) == 0 || len(g.To) == 0 {
		r.warn("spec", nil, "names nobody in from or nothing in to, so it allows nothing", "at least one of each")
	}
	return []Object{g}
}
