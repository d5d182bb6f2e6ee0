// Package flame draws a profile as a flame graph in SVG: where the time of a process went, for any
// browser and any page of Markdown.
//
//	pprof file ─► Read ─► Tree (calls with what they took, small ones pruned) ─► SVG
//
// A frame is as wide as its share of the total. Above it are the functions that it called, the
// widest first. The colour of a frame shows whose code it is. The same profile gives the same
// bytes.
//
// The package imports nothing of Lateen.
package flame
