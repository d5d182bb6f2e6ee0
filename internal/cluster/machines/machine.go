package machines

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// Machine is what a connected proxy says of its machine, once its identity is proven.
type Machine struct {
	// Namespace and Account are those of the proven identity.
	Namespace, Account string
	// Group is the WorkloadGroup from which an entry is made (metadata AUTO_REGISTER_GROUP). Entry
	// is an entry that is there already (metadata WORKLOAD_ENTRY), if Group is empty.
	Group, Entry string
	// Address is that of the node's ID, and Network, Labels and Locality ("region/zone/subzone")
	// are those of its metadata and locality.
	Address  netip.Addr
	Network  string
	Labels   map[string]string
	Locality string
	// Probes is set if the proxy's agent probes the workload (ProxyConfig.readinessProbe).
	Probes bool
}

// The annotations of a WorkloadEntry that is written here. The times are in RFC 3339.
const (
	groupAnnotation        = kinds.RegisteredAnnotation
	controllerAnnotation   = "istio.io/workloadController"
	connectedAnnotation    = "istio.io/connectedAt"
	disconnectedAnnotation = "istio.io/disconnectedAt"
	// healthAnnotation says that an entry serves only while its condition Healthy is True.
	healthAnnotation = kinds.HealthAnnotation
	// placeAnnotation is Lateen's own: the namespace of the controller, and its name again. An
	// entry whose controller is istiod's, or runs elsewhere, has another one or none, and nobody
	// here says that its controller is gone.
	placeAnnotation = "lateen.io/workload-controller"
)

// localityLabel stands in the labels of a node for its locality, in a form that no label of an
// object may have.
const localityLabel = "istio-locality"

// longestName is the limit of an object's name in bytes.
const longestName = 253

// check returns what is wrong with a Machine by itself.
func (m Machine) check() error {
	switch a := m.Address; {
	case m.Namespace == "":
		return fmt.Errorf("an anonymous proxy cannot register; want a token or a certificate of the mesh")
	case m.Group == "":
		return checkName("WORKLOAD_ENTRY", m.Entry)
	case !a.IsValid() || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast():
		return fmt.Errorf("the node's address %s cannot be reached from elsewhere; want the address at which "+
			"the mesh reaches the machine (INSTANCE_IP, or ISTIO_SVC_IP)", a)
	case a.Zone() != "":
		return fmt.Errorf("the node's address %q has a zone; want an address without one", a)
	}
	return errors.Join(checkName("AUTO_REGISTER_GROUP", m.Group), checkName("NETWORK", m.key().Name))
}

// checkName checks a name that is asked for, or a part of it.
func checkName(metadata, name string) error {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("metadata %s: %.64q is no name of an object; want lower-case letters, digits, dashes and "+
			"dots", metadata, name)
	}
	return nil
}

// key returns the entry's namespace and name. That of a group is "group-address[-network]".
func (m Machine) key() types.NamespacedName {
	k := types.NamespacedName{Namespace: m.Namespace, Name: m.Entry}
	if m.Group == "" {
		return k
	}
	k.Name = m.Group + "-" + strings.ReplaceAll(m.Address.String(), ":", "-")
	if m.Network != "" {
		k.Name += "-" + m.Network
	}
	if over := len(k.Name) - longestName; over > 0 { // the end tells machines apart
		k.Name = strings.TrimLeft(k.Name[over:], "-.")
	}
	return k
}

// entryOf makes the entry of a machine from its group: labels of the node come before those of the
// group's metadata, and these before those of its template.
func (m Machine) entryOf(group *networkingv1.WorkloadGroup) *networkingv1.WorkloadEntry {
	e := &networkingv1.WorkloadEntry{}
	e.Namespace, e.Name = m.key().Namespace, m.key().Name
	if t := group.Spec.GetTemplate(); t != nil { // the API server lets none pass
		t.DeepCopyInto(&e.Spec)
	}
	e.Spec.Address = m.Address.String()
	labels := map[string]string{}
	maps.Copy(labels, e.Spec.GetLabels())
	maps.Copy(labels, group.Spec.GetMetadata().GetLabels())
	maps.Copy(labels, m.Labels)
	delete(labels, localityLabel)
	e.Labels, e.Spec.Labels = labels, labels
	e.Annotations = map[string]string{groupAnnotation: group.Name}
	maps.Copy(e.Annotations, group.Spec.GetMetadata().GetAnnotations())
	if m.Network != "" {
		e.Spec.Network = m.Network
	}
	if m.Locality != "" {
		e.Spec.Locality = m.Locality
	}
	if m.Probes {
		e.Annotations[healthAnnotation] = "true"
	}
	e.OwnerReferences = ownedBy(group)
	return e
}

// mayControl returns an error unless the proxy of a machine may be that of an entry.
func (m Machine) mayControl(e *networkingv1.WorkloadEntry) error {
	if want := e.Spec.GetServiceAccount(); want != "" && want != m.Account {
		return fmt.Errorf("WorkloadEntry %s/%s is of the service account %q, and the proxy proved to be %q",
			e.Namespace, e.Name, want, m.Account)
	}
	return nil
}

func isRegistered(e *networkingv1.WorkloadEntry) bool { return e.Annotations[groupAnnotation] != "" }

// takesHealth reports whether the health that a proxy tells goes into an entry. If the annotation
// is not "true" it is told, and has no effect.
func takesHealth(e *networkingv1.WorkloadEntry) bool {
	_, annotated := e.Annotations[healthAnnotation]
	return annotated
}
