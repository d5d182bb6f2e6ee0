// Package tokenreview asks a Kubernetes API server which Pod and service account a token belongs
// to, and caches the answers for a few minutes. It imports nothing of Lateen.
package tokenreview
