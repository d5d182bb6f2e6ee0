// Package inject owns how a Pod gets its proxy: which Pods do, and what is added to them.
//
//	ConfigMap (config, values) ─┐
//	mesh configuration ─────────┼─► New ─► Injector ─► Inject(Pod) ─► Pod with proxy ─► JSON patch
//	templates of this package ──┘
//
// It is pure: an Injector depends on the texts that it is made of, and answers each Pod alike. The
// names of labels, annotations, values, variables and volumes are Istio's, so that images,
// manifests and templates of Istio work with it. Templates are evaluated by gotemplate and merged
// by Kubernetes' strategic merge; fields of Pods that this program does not know stay.
//
// A Pod that cannot be injected is an error that names the annotation, its value and what would be
// right. The Pod is then refused: without its proxy it would be outside of the mesh.
//
// It may import api/istionames, source/istiojson, api/model, cluster/unions and its own gotemplate.
package inject
