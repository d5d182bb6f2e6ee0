// Package serve owns the commands of a control plane: serve, which runs one for a cluster or for a
// directory of manifests, and request, which asks one that runs beside it.
//
//	flags, environment ─► app.Options ─► app.Pipeline
//
// It may import admin/page, api/compliance, api/model, app, app/config, cli/command, cli/process,
// observe, the sources, the packages of cluster that a control plane needs, and trust/ca.
package serve
