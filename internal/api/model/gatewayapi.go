package model

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// GatewayController is the name of the controller of the GatewayClasses that Lateen serves, which
// stands in the status of routes. It is istiod's: a mesh that moves from istiod keeps its classes,
// and the statuses that istiod has written are taken over where they stand.
const GatewayController = "istio.io/gateway-controller"

// BuiltInGatewayClasses are the classes that are served without an object of their own.
func BuiltInGatewayClasses() []string { return []string{"istio", "lateen"} }

// GatewayClass is a GatewayClass. Those of other controllers have no meaning, except that a
// built-in class of the same name is not Lateen's then.
type GatewayClass struct {
	Meta
	Controller string
	Accepted   Condition
	// Parameters is the ConfigMap with what is deployed differently for its Gateways; empty for
	// none.
	Parameters ObjectName
}

// KubernetesGateway is a Gateway of the Gateway API, as it is written. What it comes to depends on
// its class, on Services, Secrets and grants: the state makes a Gateway of each listener.
type KubernetesGateway struct {
	Meta
	Class     string
	Listeners []Listener // never empty; names are distinct
	// Service is the host of the Service whose workloads serve it. If it is empty, the workloads
	// with its name in their labels do.
	Service  Host
	Accepted Condition
	// Unusable says which address beside the first has no effect; empty if there is none.
	Unusable string
	// Infrastructure is how its workloads are deployed, if it has no Service of its own.
	Infrastructure Infrastructure
	// Sets are the namespaces whose ListenerSets may attach.
	Sets NamespaceSelector
	// Clients say at which ports certificates of clients are verified; that of port 0 is for all
	// that have none of their own.
	Clients []ClientValidation
	// Presents is the Secret with the certificate that its workloads present to servers whose
	// owners demand TLS; empty for none. ResolvedRefs is what the object alone says of it, without
	// a reason if there is none.
	Presents     ObjectName
	ResolvedRefs Condition
}

// Infrastructure is what a Gateway says of its deployment.
type Infrastructure struct {
	// Labels and Annotations are for all objects.
	Labels, Annotations Labels
	ServiceType         string
	Address             string // the IP address that its Service is to have; empty for any
	// Parameters names a ConfigMap of its namespace with what is deployed differently; empty for
	// none.
	Parameters string
	// Revision is the control plane that deploys it; empty if the Gateway does not say it.
	Revision string
}

// ClientValidation is how the listeners of HTTPS at a port verify certificates of clients.
type ClientValidation struct {
	Port uint16
	// Verifies is set if they do.
	Verifies bool
	// AnyClient lets clients in that have no valid certificate.
	AnyClient bool
	// Bundles are the ConfigMaps with the authorities.
	Bundles []ObjectName
	// ResolvedRefs is what the object alone says.
	ResolvedRefs Condition
}

// ListenerSet are further listeners of a Gateway, as they are written.
type ListenerSet struct {
	Meta
	// Parent is the Gateway; empty for a parent of another kind.
	Parent    ObjectName
	Listeners []Listener // names are distinct
}

// ServedGateway is a Gateway of Lateen's with all its listeners: its own, and after them those of
// the ListenerSets that it lets attach. No other part of the mesh sees it.
type ServedGateway struct {
	KubernetesGateway
	// Attached are the ListenerSets that have a listener in force.
	Attached int32
}

// Listener is one of the listeners of a KubernetesGateway or a ListenerSet.
type Listener struct {
	Name string
	// Set is the ListenerSet of a listener of a ServedGateway; empty for the Gateway's own.
	Set      ObjectName
	Port     uint16
	Protocol Protocol // what the proxy sees, as in GatewayServer
	Host     Host     // "*" for any
	// TLS is nil for plaintext. Its certificates are in Secrets: who may have them, and by which
	// names, depends on other objects.
	TLS     *ServerTLS
	Secrets []ObjectName
	// From are the namespaces whose routes may attach, and Kinds the kinds of routes, sorted.
	From  NamespaceSelector
	Kinds []kinds.Kind
	// Accepted, ResolvedRefs and Conflicted are what the object alone says.
	Accepted, ResolvedRefs, Conflicted Condition
}

// IsOpen reports whether the listener is in force, so far as the object alone says.
func (l *Listener) IsOpen() bool { return l.Accepted.Status && !l.Conflicted.Status }

// NoSecret stands for the name of a Secret that may not be used. No Secret has it.
const NoSecret = "!"

// ObjectName names an object of a kind that is known from where it stands.
type ObjectName struct{ Namespace, Name string }

// NamespaceSelector selects namespaces by their names or labels. The zero value selects none.
type NamespaceSelector struct {
	All, Same bool
	// Labels select by labels, if it is not empty: all of them have to hold.
	Labels []LabelRequirement
	// AnyLabels is set for a selector of labels without requirements, which selects all.
	AnyLabels bool
}

// LabelOperator is how a LabelRequirement compares.
type LabelOperator uint8

// The operators of Kubernetes.
const (
	LabelIn LabelOperator = iota
	LabelNotIn
	LabelExists
	LabelDoesNotExist
)

// LabelRequirement is a condition on one label.
type LabelRequirement struct {
	Key      string
	Operator LabelOperator
	Values   []string
}

// ByLabels reports whether the labels of a namespace decide.
func (s *NamespaceSelector) ByLabels() bool { return len(s.Labels) > 0 || s.AnyLabels }

// Selects reports whether a namespace with these labels is selected by an object of the namespace
// own.
func (s *NamespaceSelector) Selects(own, namespace string, labels Labels) bool {
	if s.All || s.Same && own == namespace {
		return true
	}
	return s.ByLabels() && !slices.ContainsFunc(s.Labels, func(r LabelRequirement) bool { return !r.holds(labels) })
}

func (r LabelRequirement) holds(labels Labels) bool {
	value, has := labels.Get(r.Key)
	switch r.Operator {
	case LabelIn:
		return has && slices.Contains(r.Values, value)
	case LabelNotIn:
		return !has || !slices.Contains(r.Values, value)
	case LabelExists:
		return has
	default:
		return !has
	}
}

// IsAttachedRoute reports whether a kind is one of routes of the Gateway API.
func IsAttachedRoute(k kinds.Kind) bool {
	switch k {
	case kinds.HTTPRoute, kinds.GRPCRoute, kinds.TLSRoute, kinds.TCPRoute:
		return true
	}
	return false
}

// AttachedRoute is a route of the Gateway API as it is written. The state makes VirtualServices of
// it, by the listeners and Services that it attaches to.
type AttachedRoute struct {
	Meta
	Parents []ParentRef
	Hosts   []Host       // empty for any
	HTTP    []*HTTPRoute // one for each rule of an HTTPRoute or a GRPCRoute, canonical
	TCP     []*TCPRoute  // one for each rule of a TLSRoute or a TCPRoute, canonical
	// Foreign are the destinations that may be in other namespaces, each once, sorted. At gateways
	// they need a grant.
	Foreign []ForeignHost
	// Accepted, ResolvedRefs and PartiallyInvalid are what the object alone says.
	Accepted, ResolvedRefs, PartiallyInvalid Condition
	// Closed is set if the route attaches nowhere, because none of its hosts can be read.
	Closed bool
}

// ForeignHost is a Service of another namespace, by its name and its host. Without a name it is a
// host that the route names as such (Istio's Hostname). No grant can be for that, so it has to be
// the host of a Service or a ServiceEntry of the route's namespace.
type ForeignHost struct {
	Service ObjectName
	Host    Host
}

// ParentRef is one of spec.parentRefs. The fields are as they are written, with the defaults of the
// API.
type ParentRef struct {
	Group, Kind, Namespace, Name, Section string
	Port                                  uint16
	// Host is that of a Service, and empty for other parents.
	Host Host
}

// GatewayNameLabel is the label of workloads and Services with the name of the Gateway that they
// serve, and OldGatewayNameLabel its name before.
const (
	GatewayNameLabel    = "gateway.networking.k8s.io/gateway-name"
	OldGatewayNameLabel = "istio.io/gateway-name"
)

// IsGateway reports whether it names a Gateway of the Gateway API.
func (p *ParentRef) IsGateway() bool { return p.Group == kinds.GatewayAPIGroup && p.Kind == "Gateway" }

// IsListenerSet reports whether it names a ListenerSet.
func (p *ParentRef) IsListenerSet() bool {
	return p.Group == kinds.GatewayAPIGroup && p.Kind == string(kinds.ListenerSet)
}

// NamespaceIn returns the namespace of the parent of a route in a namespace.
func (p *ParentRef) NamespaceIn(namespace string) string { return cmp.Or(p.Namespace, namespace) }

// ReferenceGrant allows objects of other namespaces to name objects of its own.
type ReferenceGrant struct {
	Meta
	From []GrantFrom
	To   []GrantTo
}

// GrantFrom are the objects of a kind in one namespace.
type GrantFrom struct{ Group, Kind, Namespace string }

// GrantTo are the objects of a kind, or the one of a name.
type GrantTo struct{ Group, Kind, Name string }

// Allows reports whether the grant is for such a reference.
func (g *ReferenceGrant) Allows(from GrantFrom, to GrantTo) bool {
	return slices.Contains(g.From, from) && slices.ContainsFunc(g.To, func(t GrantTo) bool {
		return t == to || t == GrantTo{Group: to.Group, Kind: to.Kind}
	})
}

// Condition is a condition of a status of the Gateway API.
type Condition struct {
	Status          bool
	Reason, Message string
}

// GatewayAPIStatus is what the state makes of an object of the Gateway API, and what its status
// says. It has the Meta of the object.
type GatewayAPIStatus struct {
	Meta
	// Accepted is of a GatewayClass, a Gateway or a ListenerSet, and Programmed of the latter two.
	Accepted, Programmed Condition
	// Insecure is of a Gateway that lets clients in without a valid certificate, and ResolvedRefs
	// of one that presents a certificate itself.
	Insecure, ResolvedRefs Condition

	Listeners []ListenerStatus
	Addresses []string // names or IP addresses
	// Sets is how many ListenerSets are attached to a Gateway.
	Sets int32
	// Parents are of a route, and of a BackendTLSPolicy what its status calls ancestors.
	Parents []ParentStatus
	// Deployment is what a Gateway is deployed as; nil if its workloads are a user's own.
	Deployment *GatewayDeployment
	// Address says why a Gateway has no address.
	Address AddressState
}

// AddressState says whether a Gateway has an address, and if not, who is to give it one.
type AddressState uint8

const (
	// HasAddress is the state of a Gateway with an address, and of all other objects.
	HasAddress AddressState = iota
	// AwaitsDeployment says that no Service leads to the Gateway. Its deployment makes one.
	AwaitsDeployment
	// AwaitsBalancer says that the Services of the Gateway wait for their load balancer.
	AwaitsBalancer
	// LacksAddress says that nobody can give the Gateway an address as it is.
	LacksAddress
)

// DeploymentName returns the name of what is deployed, also of its service account; "" for nothing.
func (s *GatewayAPIStatus) DeploymentName() string {
	if s == nil || s.Deployment == nil {
		return ""
	}
	return s.Deployment.Name
}

// GatewayDeployment is what is deployed for a Gateway.
type GatewayDeployment struct {
	Gateway Meta
	Name    string // of all objects
	Class   string
	// Infrastructure has the revision of the namespace where the Gateway does not say any.
	Infrastructure
	ClassParameters ObjectName    // those of the class
	Ports           []GatewayPort // by their number, each once
	// Mistake says why the parameters cannot be read; "" if they can. With one nothing is applied.
	Mistake string
}

// GatewayPort is a port that a Gateway listens at.
type GatewayPort struct {
	Port     uint16
	Protocol Protocol // HTTP, TLS or TCP
}

// ListenerStatus is the status of one listener.
type ListenerStatus struct {
	Name                                           string
	Kinds                                          []kinds.Kind
	Attached                                       int32 // routes
	Accepted, Programmed, ResolvedRefs, Conflicted Condition
}

// ParentStatus is the status of a route at one of its parents.
type ParentStatus struct {
	Ref ParentRef
	// PartiallyInvalid has no Reason if it does not hold.
	Accepted, ResolvedRefs, PartiallyInvalid Condition
	// Listeners are the names of the Gateways that the state has made of the listeners that the
	// route attaches to, each as "namespace/name".
	Listeners []string
}
