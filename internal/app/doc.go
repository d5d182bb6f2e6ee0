// Package app owns how the stages of the pipeline are put together, for serve and for up alike: one constructor per stage,
// in the order in which data flows. It may import every stage; nothing but cmd imports it.
package app
