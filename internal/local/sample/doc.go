// Package sample is the built-in demo application behind `lateen sample`: one small program that
// plays each part of the bookshop (productpage, details, reviews, ratings), or echoes what it is
// sent, so that a mesh can be tried and tested without images to pull. It shows who answered,
// forwards what tracing and routing need, and fails on request.
//
// It imports nothing of Lateen.
package sample
