// Package load makes the meshes that lateen perf measures, and the changes to them, as the objects that an API server would hold.
//
//	service s ──► namespace s % Namespaces, port 80; its pods are the numbers p with p % Services = s
//	pod p ──► address 10.(p); a pod that takes its place is p of the next generation, under another name and address
//
// Everything is a function of a Shape and of numbers: two runs make equal objects. What should be recognised on its way to the
// proxies carries a Marker: a number that stands in the bytes of what Envoy is sent, whatever control plane has translated it.
//
// It imports api/kinds and source, and nothing else of Lateen.
package load
