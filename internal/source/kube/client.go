package kube

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingk8s "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// client makes requests: one REST client per group and version, over one HTTP client.
type client struct {
	config rest.Config
	http   *http.Client
	rest   map[schema.GroupVersion]rest.Interface
}

const (
	protobuf = "application/vnd.kubernetes.protobuf,application/json"
	// metadataOnly requests objects without their content.
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// newClient makes the REST clients of all resources. It connects to nothing and fails on a bad
// configuration.
func newClient(config *rest.Config, all []*resource) (*client, error) {
	c := &client{config: *config, rest: map[schema.GroupVersion]rest.Interface{}}
	// No limit here: the API server limits its clients itself (priority and fairness).
	c.config.QPS = -1
	var err error
	if c.http, err = rest.HTTPClientFor(&c.config); err != nil {
		return nil, fmt.Errorf("the configuration of the Kubernetes client: %w", err)
	}
	standard, err := standardCodecs()
	if err != nil {
		return nil, err
	}
	for _, r := range append(all, definitions(), tagWebhooks()) {
		for _, version := range r.versions {
			gv := r.in(version)
			if c.rest[gv] != nil {
				continue
			}
			own := c.config
			own.GroupVersion = &gv
			own.APIPath = "/apis"
			if gv.Group == corev1.GroupName {
				own.APIPath = "/api"
			}
			own.ContentType, own.AcceptContentTypes = "application/vnd.kubernetes.protobuf", protobuf
			own.NegotiatedSerializer = standard.WithoutConversion()
			if r.custom || r.isMetadata() {
				own.ContentType, own.AcceptContentTypes = "application/json", "application/json"
				own.NegotiatedSerializer = newCustomCodec(standard, all, gv)
			}
			if c.rest[gv], err = rest.RESTClientForConfigAndClient(&own, c.http); err != nil {
				return nil, fmt.Errorf("the configuration of the Kubernetes client: %w", err)
			}
		}
	}
	return c, nil
}

// standardCodecs returns codecs for the built-in types that are watched.
func standardCodecs() (serializer.CodecFactory, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, networkingk8s.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return serializer.CodecFactory{}, err
		}
	}
	return serializer.NewCodecFactory(scheme), nil
}

// get begins a request for a resource in a namespace, or in all.
func (c *client) get(r *resource, version, namespace string) *rest.Request {
	return c.rest[r.in(version)].Get().Resource(r.Resource).NamespaceIfScoped(namespace, namespace != "")
}
