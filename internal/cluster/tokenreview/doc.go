// Package tokenreview asks a Kubernetes API server which Pod's service account a token stands for,
// and remembers the answers for a few minutes. It imports nothing of Lateen.
package tokenreview
