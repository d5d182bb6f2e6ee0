// Package untrusted decodes JSON and YAML that others wrote, at a bounded cost.
//
//	text ─► size, depth, number of values ─► quantities where the type has them ─► decoder
//
// Decoders trust their input in three ways. They turn an empty list of two bytes into a hundred
// bytes or more. They follow aliases of YAML, which multiply. And resource.ParseQuantity computes
// 10^n for an exponent n, which takes hours for 13 bytes. Whoever decodes a Pod, an annotation, a
// review or the text of a ConfigMap does so by this package, and so does not wait for a deadline
// that ends nothing.
//
// It imports nothing of Lateen.
package untrusted
