package app

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/cluster/gateways"
	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/cluster/inject/watch"
)

// watchTemplates makes what follows the templates of proxies: for Pods that the webhook injects,
// and for Gateways that are deployed. One watch is for both.
func (c *Cluster) watchTemplates() {
	o := c.o
	injects := o.Inject && o.Webhook != nil
	if !injects && !o.DeployGateways {
		return
	}
	w := watch.New(watch.Options{
		Core: c.core.RESTClient(), Namespace: o.Names.Namespace, ConfigMap: o.Names.InjectorConfig,
		MeshConfig: o.Names.MeshConfig, Revision: o.Revision, Native: o.Native, Metrics: o.Metrics, Log: o.Log,
		Compliance: o.Compliance.String(),
	})
	if injects {
		c.injection = w
	}
	if o.DeployGateways {
		c.templates = w
	}
}

// gateways returns what the controller of Gateways needs.
func (c *Cluster) gateways() gateways.Options {
	return gateways.Options{
		Deployments: c.deployments, API: c.deploy, RootNamespace: c.o.Names.Namespace, Revision: c.o.Revision,
		RevisionOf: c.o.RevisionOf,
		Render:     c.renderGateway, Report: c.attachments.Deployed, Metrics: c.o.Metrics, Log: c.o.Log,
	}
}

// renderGateway implements gateways.Render by the templates of the injection.
func (c *Cluster) renderGateway(pod []byte, namespace, deployment string) ([]byte, error) {
	injector, err := c.templates.Injector()
	if err != nil {
		return nil, err
	}
	result, err := injector.Inject(inject.Pod{
		JSON: pod, Namespace: namespace,
		Owner: inject.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment},
	})
	if err == nil && !result.Inject {
		err = fmt.Errorf("no Pod of namespace %s may have one: %s", namespace, result.Reason)
	}
	return result.JSON, err
}
