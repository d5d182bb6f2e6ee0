package installer

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/install/apply"
	"github.com/lateen-mesh/lateen/internal/install/precheck"
)

// injection is what is found of the injection in one namespace; wrong is empty if it works.
type injection struct{ namespace, wrong string }

// tryInjection tries a Pod in each namespace that asks for proxies of a revision. If none does, it
// tries one that asks itself, in a namespace without labels.
func tryInjection(ctx context.Context, cluster *apply.Cluster, revision string) ([]injection, error) {
	namespaces, others, err := namespacesAndWebhooks(ctx, cluster)
	if err != nil {
		return nil, err
	}
	names := precheck.NamesOf(revision, others)
	var asking, silent []*unstructured.Unstructured
	for i := range namespaces {
		n := &namespaces[i]
		switch {
		case precheck.Asks(n, names) != "":
			asking = append(asking, n)
		case precheck.Silent(n) && !strings.HasPrefix(n.GetName(), "kube-"):
			silent = append(silent, n)
		}
	}
	labels := precheck.PodLabels("")
	if len(asking) == 0 && len(silent) > 0 {
		asking, labels = silent[:1], precheck.PodLabels(revision)
	}
	var all []injection
	for _, n := range asking {
		wrong := strings.Join(precheck.Injectors(others, n), ", ")
		if wrong != "" {
			wrong += " injects too"
		} else if pod, err := cluster.TryPod(ctx, n.GetName(), labels); err != nil {
			wrong = "a new Pod is refused: " + err.Error()
		} else {
			wrong = precheck.Injected(pod, revision)
		}
		all = append(all, injection{n.GetName(), wrong})
	}
	return all, nil
}

// namespacesAndWebhooks returns what decides who injects: all namespaces, and all
// MutatingWebhookConfigurations.
func namespacesAndWebhooks(ctx context.Context, from estate,
) (namespaces, webhooks []unstructured.Unstructured, _ error) {
	all, err := from.List(ctx, "v1", "Namespace")
	if err != nil {
		return nil, nil, err
	}
	asked, err := from.List(ctx, "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
	if err != nil {
		return nil, nil, err
	}
	return all.Items, asked.Items, nil
}
