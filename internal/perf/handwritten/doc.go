// Package handwritten owns Envoys whose configuration is written by hand: what a path of a mesh
// must do and nothing else, pass requests on, in mutual TLS where that is asked for. Measurements
// put them beside proxies that Lateen configures. It imports nothing of the product.
package handwritten
