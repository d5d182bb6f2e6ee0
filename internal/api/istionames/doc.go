// Package istionames owns the table of Istio's annotations and labels (istio.io/api, annotation and
// label): which of them are in force, and why the others are not. It imports nothing of Lateen.
package istionames
