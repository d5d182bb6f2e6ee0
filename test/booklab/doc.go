// Package booklab holds the lab of chapter 11 of "Istio in Action" as a test: 12 sidecars and a
// gateway, 200 Services with a Gateway and a VirtualService each, then ten more, one every 2.5
// seconds; as is, with a mesh-wide Sidecar, and with a debounce of 2.5 seconds besides. It drives a
// real API server and `lateen serve` from outside. `make test-all` runs a short form, and checks
// what was sent; `make book-lab` runs the whole and writes what was measured into docs/book-lab.md.
package booklab
