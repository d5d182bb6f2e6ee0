// Package cel checks expressions in the Common Expression Language before Envoy gets them, because
// Envoy refuses a whole listener with one that it does not take. It takes what Envoy's access log
// filter takes and is no surprise: operators, literals without control characters, attributes, and
// the functions that Envoy registers. Envoy has no comprehensions there (all, exists, map, filter).
//
// A library would cost the control plane more memory than all policies of a mesh, and would still
// have to be told which functions Envoy has.
// It may import nothing of Lateen.
package cel
