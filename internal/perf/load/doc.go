// Package load makes the meshes that lateen perf measures, and changes to them, as objects of an
// API server.
//
//	service s ──► namespace s % Namespaces, port 80; its pods are the numbers p with p % Services = s
//	pod p     ──► address 10.(p); its replacement is p of the next generation, with another name and address
//
// Everything is a function of a Shape and of numbers, so two runs make equal objects. What must be
// recognised on its way to the proxies carries a Marker: a number in the bytes of what Envoy
// receives, whichever control plane has translated it.
//
// It imports api/kinds and source, and nothing else of Lateen.
package load
