// Package unions keeps one member of each union of Kubernetes' API when objects are merged.
//
// A union is a group of fields of which an object has one at most: the source of a volume, the
// handler of a probe, the value of a variable. Kubernetes' strategic merge keeps the members of
// both sides, which the API server then refuses ("may not specify more than 1 volume type"). So
// what a patch replaces by another member is removed before they are merged.
//
// It imports nothing of Lateen.
package unions
