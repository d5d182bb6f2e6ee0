package patch

import (
	"slices"
	"strings"

	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// What may change a message is told by its name, before there is a message: so only messages that
// patches match are made for them. Additions change no message, but those within a listener.

// MayChangeCluster reports whether a patch of clusters may change the one of a name.
func (p Patch) MayChangeCluster(name string, at ClusterSite) bool {
	return p.Operation != model.PatchAdd && p.IsFor(at.Context) && matchesCluster(p.Cluster, name, at.Services)
}

// MayChangeListener reports whether a patch may change a listener, what is in it, or routes in it.
func (p Patch) MayChangeListener(name string, port uint16, context model.PatchContext) bool {
	if !p.IsFor(context) || p.Target == model.PatchListener && p.Operation == model.PatchAdd {
		return false
	}
	m := p.Listener
	if m.Name != "" && m.Name != name {
		return false
	}
	return m.Port == 0 || m.Port == port || p.Target != model.PatchListener && isVirtualName(name)
}

// MayChangeTable reports whether a patch of route tables may change one.
func (p Patch) MayChangeTable(at TableSite) bool { return p.IsFor(at.Context) && at.matches(p.Route) }

// MayChangeHost reports whether a patch of virtual hosts or routes may change the virtual host of a
// name in a table.
func (p Patch) MayChangeHost(name string, at TableSite) bool {
	adds := p.Target == model.PatchVirtualHost && p.Operation == model.PatchAdd
	return !adds && p.IsFor(at.Context) && at.matches(p.Route) && (p.Route.Host == "" || at.names(p.Route.Host, name))
}

// IsOfPolicies reports whether a patch is for the filters that policies come to, at whatever port.
// Where these are one list apart, it changes the list.
func (p Patch) IsOfPolicies() bool {
	m := p.Listener
	if p.Target != model.PatchHTTPFilter || !isOfPolicies(m.Chain.SubFilter) {
		return false
	}
	m.Chain.Filter, m.Chain.SubFilter = "", ""
	return m == (model.ListenerMatch{}) || m == (model.ListenerMatch{Name: virtualInbound})
}

// MayBeApart reports whether the filter that a patch adds may be a resource of its own: it has a
// configuration of a type that is known (Envoy wants to be told which), does not end the list, and
// does not stand in another one.
func MayBeApart(p Patch) bool {
	of := typeOf(p)
	isKnown := of != "" && of != string((&routerv3.Router{}).ProtoReflect().Descriptor().FullName()) &&
		!strings.HasSuffix(of, ".TypedStruct")
	return isKnown && p.Value.Name != "" && !p.IsOfPolicies()
}

// MustBeApart reports whether the filter that a patch adds is a resource of its own, whatever the
// proxy: agents fetch the modules of such resources. Patches that merge into it have no effect.
func MustBeApart(p *model.ConfigPatch) bool { return p.Fallback != model.FallbackByType }

// typeOf returns the name of the type of a filter's configuration; empty without one.
func typeOf(p Patch) string { return p.Value.Config[strings.LastIndexByte(p.Value.Config, '/')+1:] }

// guards reports whether the filter that a patch adds decides who may pass, by its type or because
// the patch says so. Where such a filter is missing nothing passes.
func guards(p Patch) bool {
	switch p.Class {
	case model.AuthenticationClass, model.AuthorizationClass, model.FirstClass, model.BetweenClass:
		return true
	}
	return slices.ContainsFunc([]string{
		"api_key_auth", "basic_auth", "csrf", "ext_authz", "jwt_authn", "oauth2", "rbac",
	}, func(extension string) bool {
		return strings.HasPrefix(typeOf(p), "envoy.extensions.filters.http."+extension+".")
	})
}

// isOfPolicies reports whether policies come to filters with a name. Where they are one list apart,
// that is their place.
func isOfPolicies(name string) bool {
	return slices.Contains([]string{pb.TokenFilter, pb.ExtAuthzFilter, pb.RBACFilter}, name)
}

func isVirtualName(name string) bool { return name == virtualInbound || name == virtualOutbound }
