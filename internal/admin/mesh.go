package admin

import (
	"cmp"
	"context"
	"net/url"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Mesh is what pages about the mesh are made of.
type Mesh struct {
	// Snapshot returns the present generation, nil before the first.
	Snapshot func() *state.Snapshot
	// Problems returns the known mistakes in a fixed order.
	Problems func() []source.Problem
	// Events returns the changes of objects since the control plane started, by namespace.
	Events func() map[string]uint64
	// Templates returns the templates of injection in force; nil where nothing is injected.
	Templates func() (map[string]string, error)
	// Patches says what the patches of an object do; nil without an error if there is no such
	// object.
	Patches func(page.ObjectQuestion) (*page.PatchEffects, error)
	// Plan says what manifests would do.
	Plan func(context.Context, page.PlanQuestion) (*page.Plan, error)
	// History is what is remembered of generations.
	History History
	// Cluster is the cluster's name; empty stands for "Kubernetes".
	Cluster  string
	Settings page.CensusSettings

	census censusCache
}

// clusterPage is one cluster whose objects are read, as `istioctl remote-clusters` lists it.
type clusterPage struct {
	ID         string `json:"id"`
	SecretName string `json:"secretName"` // of a remote cluster's access; this is the own cluster
	SyncStatus string `json:"syncStatus"`
}

func (m *Mesh) clusterID() string { return cmp.Or(m.Cluster, "Kubernetes") }

// queries are the pages whose answer depends on the query, by name.
func (m *Mesh) queries() map[string]func(url.Values) (any, error) {
	return map[string]func(url.Values) (any, error){
		page.Describe: m.describe, page.Authorize: m.authorize, page.Objects: m.countObjects,
		page.Patches: m.patches, page.Past: m.history,
		page.Blaming: m.blame, page.Differing: m.difference, page.Restoring: m.restoration,
		page.Costing: m.cost,
	}
}

// pages returns istiod's debug pages about the mesh, by name. Their content is Lateen's own model,
// since it is what is in force. Pages about what Lateen does not have are empty, so that a tool
// which collects all pages gets an answer for each.
func (m *Mesh) pages(ready func() error) map[string]func() any {
	of := func(content func(*state.Snapshot) any) func() any {
		return func() any {
			if w := m.Snapshot(); w != nil {
				return content(w)
			}
			return struct{}{}
		}
	}
	pages := map[string]func() any{
		"registryz":      of(func(w *state.Snapshot) any { return servicePages(w) }),
		"endpointShardz": of(func(w *state.Snapshot) any { return endpointPages(w, m.clusterID()) }),
		"endpointz":      of(func(w *state.Snapshot) any { return endpointPages(w, m.clusterID()) }),
		"authorizationz": of(func(w *state.Snapshot) any { return policyPages(w) }),
		page.Mesh:        of(func(w *state.Snapshot) any { return w.Mesh }),
		"inject":         m.templates,
		"clusterz": func() any {
			sync := "synced"
			if ready() != nil {
				sync = "syncing"
			}
			return []clusterPage{{ID: m.clusterID(), SyncStatus: sync}}
		},
	}
	for _, name := range []string{ // objects
		"ambientz", "cachez", "instancesz", "krtz", "push_status", "pushcontext", "sidecarz", "telemetryz",
	} {
		pages[name] = func() any { return struct{}{} }
	}
	for _, name := range []string{"configz", "mcsz", "networkz", "resourcesz"} { // lists
		pages[name] = func() any { return []string{} }
	}
	return pages
}

// templates returns the templates with which Pods get their proxies.
func (m *Mesh) templates() any {
	if m.Templates == nil {
		return struct{}{}
	}
	found, err := m.Templates()
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	return found
}
