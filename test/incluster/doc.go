// Package incluster tests what Lateen tells and writes in a cluster, against a real API server:
// `lateen manifest` is applied, and `lateen serve` runs with the token of the service account that
// it makes.
package incluster
