// Package precheck says of each object of a cluster whether it would be in force with Lateen: go,
// or no go with the field that would not be. It reads objects with the code of the control plane,
// and changes nothing.
//
//	objects ─► manifest (strict) ─► convert ─► a verdict each
//	        └► differences ─► what is in force and works otherwise than with istiod
//	namespaces ─► labels that contradict each other, other control planes that inject too
//	workloads ─► injection (of namespaces that ask for proxies of any control plane)
//	all       ─► offline ─► which patches of EnvoyFilters match nothing of any proxy
//
// Of a control plane that is installed it judges what has become of a Pod that was tried.
//
// What objects say about each other (a subset that nobody defines) is not looked at: it is the same
// with istiod.
//
// It may import app/config, api/kinds, api/convert, api/differences, api/istionames, api/model,
// cluster/inject, compile/offline, source and source/manifest.
package precheck
