// Package sample is the demo application behind `lateen sample`. One small program plays each part
// of the bookshop (productpage, details, reviews, ratings), or echoes requests, so that a mesh can
// be tried without pulling images. Its answers show who answered, it forwards the headers of
// tracing and routing, and it fails on request.
//
// It imports nothing of Lateen.
package sample
