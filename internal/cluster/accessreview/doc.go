// Package accessreview asks a Kubernetes API server whether a service account may read Secrets, and
// caches the answers for a short time. It imports nothing of Lateen.
package accessreview
