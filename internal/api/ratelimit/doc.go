// Package ratelimit owns the kind RateLimit (lateen.io/v1alpha1): how many requests workloads,
// Gateways and routes take. docs/reference/ratelimit.md says what each field does, and
// charts/base/files/crd-ratelimits.yaml has its schema.
//
// It may import nothing of Lateen.
package ratelimit
