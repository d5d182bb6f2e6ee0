package cli

import (
	"errors"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lateen-mesh/lateen/internal/cluster/install"
	"github.com/lateen-mesh/lateen/internal/cluster/webhook"
	"github.com/lateen-mesh/lateen/internal/cluster/webhook/registration"
)

func newManifest() *cobra.Command {
	o := install.Options{
		WebhookName: registration.WebhookName, WebhookPath: webhook.Path,
		InjectName: registration.InjectionName, InjectPath: webhook.InjectPath,
	}
	cmd := &cobra.Command{
		Use:   "manifest --image IMAGE",
		Short: "Print the manifests that install the control plane in a cluster",
		Long: `Prints YAML for kubectl apply -f - or for a kustomization: the namespace, a service
account with no more rights than it needs, the Deployment, the Service istiod, a NetworkPolicy,
and the configurations of the webhooks: one validates Istio's objects, the other gives Pods their
proxies. The custom resources of Istio are not among them.`,
		Example: `  lateen manifest --image registry.example.com/lateen:v1 | kubectl apply -f -`,
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return install.Write(cmd.OutOrStdout(), install.Objects(o))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Namespace, "namespace", "istio-system", "the root namespace")
	flags.StringVar(
		&o.Revision,
		"revision",
		"",
		"tells this control plane from others in the same cluster; it serves Istio objects with the label "+
			"istio.io/rev accordingly, and those without",
	)
	flags.StringVar(&o.Image, "image", "", "the image of the control plane")
	flags.StringVar(&o.ProxyImage, "proxy-image", "", "the image of injected proxies (default: Istio's proxyv2)")
	flags.Int32Var(&o.Replicas, "replicas", 2, "how many run")
	atLeast(flags, "replicas", &o.Replicas, 1)
	validateFlag(flags, "namespace", func() error { return dnsLabel(o.Namespace) })
	validateFlag(flags, "revision", func() error {
		if o.Revision == "" {
			return nil // the only one
		}
		return dnsLabel(o.Revision)
	})
	validateFlag(flags, "image", func() error {
		if o.Image == "" || strings.ContainsFunc(o.Image, unicode.IsSpace) {
			return errors.New("want the image of the control plane, as registry.example.com/lateen:v1")
		}
		return nil
	})
	validateFlag(flags, "proxy-image", func() error { return registryImage(o.ProxyImage) })
	_ = cmd.MarkFlagRequired("image")
	return cmd
}

// dnsLabel reports whether a name is invalid as a part of object names (RFC 1123).
func dnsLabel(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return errors.New(
			"want a name of small letters, digits and dashes, 63 at most, that begins and ends with a letter or a " +
				"digit",
		)
	}
	return nil
}
