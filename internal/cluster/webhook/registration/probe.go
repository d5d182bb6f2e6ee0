package registration

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// Probe checks whether an API server calls the webhook. It uses a dry run, so that nothing is
// stored.
type Probe struct {
	client    rest.Interface
	namespace string
	revision  string
}

// NewProbe returns a Probe for a namespace. For a revision other than "default" it labels the
// object, because the API server asks the webhook of a revision only about objects of that
// revision.
func NewProbe(config *rest.Config, namespace, revision string) (Probe, error) {
	c := rest.CopyConfig(config)
	c.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
	client, err := rest.UnversionedRESTClientFor(c)
	return Probe{client, namespace, revision}, err
}

// badGateway is an object that the schema admits and the webhook refuses: no port has the number 0.
const badGateway = `{"apiVersion": %q, "kind": %q,
	"metadata": {"name": "lateen-validation-probe", "namespace": %q, "labels": {%s}},
	"spec": {"servers": [{"port": {"number": 0, "name": "none", "protocol": "HTTP"}, "hosts": ["probe.invalid"]}]}}`

var errAdmitted = errors.New("the API server admits an object that the webhook refuses")

// Answers returns nil if the API server refuses the object because of a webhook with our name.
func (p Probe) Answers(ctx context.Context) error {
	labels := ""
	if p.revision != "" && p.revision != "default" {
		labels = fmt.Sprintf("%q: %q", kinds.RevisionLabel, p.revision)
	}
	gateway := kinds.Of(kinds.Gateway)
	api := gateway.APIVersions()[0]
	body := fmt.Appendf(nil, badGateway, api, gateway.Kind, p.namespace, labels)
	err := p.client.Post().AbsPath("apis", api, "namespaces", p.namespace, gateway.Resource).
		Param("dryRun", metav1.DryRunAll).Body(body).Do(ctx).Error()
	switch {
	case err == nil:
		return errAdmitted
	case strings.Contains(err.Error(), WebhookName+`" denied the request`):
		return nil
	}
	return err
}

// WebhookName is the suffix of the names of webhooks in the configuration. An API server names the
// webhook in its refusal.
const WebhookName = "validation.lateen.io"
