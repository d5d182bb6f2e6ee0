package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// adminOptions returns what the pages and answers for operators and their tools show.
func (p *Pipeline) adminOptions() admin.Options {
	pod := ""
	if p.o.Cluster != nil {
		pod = p.o.Cluster.o.Pod
	}
	return admin.Options{
		Version:       p.o.Version,
		Gatherer:      prometheus.GathererFunc(p.gather),
		Fleet:         p.server,
		Ready:         p.registry.ready,
		Hosts:         debugHosts(p.o),
		Pod:           pod,
		NoPages:       p.o.Config.NoDebugPages,
		RootNamespace: func() string { return p.meshConfig().RootNamespace },
		Mesh: &admin.Mesh{
			Snapshot: p.snapshot.Load, Problems: p.problemStore.Problems, Events: p.meters.events.all,
			Patches: p.patchEffects, Plan: p.plan, History: pastPages{p},
			Templates: p.templates(), Cluster: p.o.ClusterID, Settings: settingsOf(p.o),
		},
	}
}

func settingsOf(o Options) page.CensusSettings {
	return page.CensusSettings{
		DebounceAfter: o.Config.DebounceAfter.Seconds(), DebounceEarly: o.Config.DebounceEarly.Seconds(),
		DebounceMax: o.Config.DebounceMax.Seconds(), AllClusters: o.Config.AllClusters,
		Selects: o.Selected, InCluster: o.Cluster != nil,
	}
}

// templates returns what has the templates of injection, nil if nothing is injected.
func (p *Pipeline) templates() func() (map[string]string, error) {
	if p.o.Cluster == nil || p.o.Cluster.injection == nil {
		return nil
	}
	return func() (map[string]string, error) {
		injector, err := p.o.Cluster.injection.Injector()
		if err != nil {
			return nil, err
		}
		return injector.Templates, nil
	}
}

// Authorize answers a question from what a source has at first, as Analyze reads it. Keys of token
// issuers are not fetched, and taken for good.
func Authorize(ctx context.Context, o Options, q page.AuthzQuestion) (*page.AuthzAnswer, error) {
	w, problems, err := readOnce(ctx, o)
	if err != nil {
		return nil, err
	}
	if w == nil { // nothing at all is there
		w, _ = newWriter(o).Apply(nil)
	}
	return admin.Authorize(w, problems, nil, q)
}

// gather returns the metrics. What changes between generations too is read now.
func (p *Pipeline) gather() ([]*dto.MetricFamily, error) {
	p.meters.classes(p.compiler)
	p.meters.patches(p.compiler.PatchMatches())
	return p.metrics.Registry.Gather()
}

// inspectorOf is the Inspector of a pipeline, which is made after the server that it looks at.
type inspectorOf struct{ p *Pipeline }

// Inspect implements serve.Inspector.
func (i inspectorOf) Inspect(id serve.Identity, typeURL string, names []string) (serve.Inspection, error) {
	return i.p.inspector.Inspect(id, typeURL, names)
}
