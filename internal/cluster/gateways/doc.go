// Package gateways deploys the workloads of Gateways of the Gateway API: for each a Deployment, a
// Service and a ServiceAccount, and as its parameters say a HorizontalPodAutoscaler and a
// PodDisruptionBudget.
//
//	state ─ GatewayAPIStatus.Deployment ─► Deployments ─► Controller ═► API server (create,
//	        (the latest of each Gateway)                  │ (leader)    server-side apply, delete)
//	ConfigMaps of parametersRef ──────────────────────────┤
//	templates of the injection ─► Render ─────────────────┤
//	                                                      └─► Report ─► a condition
//
// Objects belong to their Gateway (ownerReferences), so that the API server's garbage collector
// removes them with it. An object that another manager has made is left alone, and the Gateway says
// so (managed.go). Each object is applied on its own: one that fails holds up no other one. The
// number of replicas is never set, so that people and autoscalers may.
//
// The proxy of a Pod is rendered here, by the templates of the injection, so that a Pod without its
// proxy cannot come to be. The webhook is kept from it by a label.
//
// The package may import api/model, cluster/unions, observe and source.
package gateways
