package page

import "net/url"

// ObjectQuestion asks about an object. What applies to one is asked with the kind pod or service,
// and the name of a service may be its host. What the patches of one do is asked with its own kind.
type ObjectQuestion struct{ Kind, Namespace, Name string }

// Query is the question in a request for the page.
func (q ObjectQuestion) Query() url.Values {
	return url.Values{"kind": {q.Kind}, "namespace": {q.Namespace}, "name": {q.Name}}
}

// ObjectQuestionOf reads what Query has written.
func ObjectQuestionOf(query url.Values) ObjectQuestion {
	return ObjectQuestion{query.Get("kind"), query.Get("namespace"), query.Get("name")}
}

// Description is what the mesh knows of a Pod or a service: what applies to it, and what is wrong
// with that.
type Description struct {
	Kind           string            `json:"kind"`
	Namespace      string            `json:"namespace"`
	Name           string            `json:"name"`
	Labels         map[string]string `json:"labels,omitempty"`
	Host           string            `json:"host,omitempty"`
	ServiceAccount string            `json:"serviceAccount,omitempty"`
	Addresses      []string          `json:"addresses,omitempty"`
	Locality       string            `json:"locality,omitempty"`
	// MutualTLS is the mode of calls to it; of a service MIXED if its Pods differ, empty without
	// Pods.
	MutualTLS MutualTLS `json:"mutualTLS,omitempty"`
	// MutualTLSPorts are the ports of a Pod with a mode of their own.
	MutualTLSPorts map[uint16]MutualTLS `json:"mutualTLSPorts,omitempty"`
	Ports          []DescribedPort      `json:"ports,omitempty"`
	Endpoints      *DescribedEndpoints  `json:"endpoints,omitempty"`
	Services       []Description        `json:"services,omitempty"` // of a Pod
	// Applied are the objects that say something about it, by kind and name.
	Applied  []DescribedObject `json:"applied,omitempty"`
	Problems []string          `json:"problems,omitempty"`
}

// DescribedPort is a port of a service.
type DescribedPort struct {
	Name     string `json:"name,omitempty"`
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"`
	Target   string `json:"target,omitempty"`
}

// DescribedEndpoints counts the endpoints of a service.
type DescribedEndpoints struct {
	Healthy int `json:"healthy"`
	All     int `json:"all"`
}

// DescribedObject is an object that applies, and how.
type DescribedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	How       string `json:"how,omitempty"`
}
