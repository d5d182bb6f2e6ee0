// Package flame draws a profile as a flame graph: where the time of a process went, as a picture that any browser and any page of
// Markdown shows.
//
//	pprof file ─► Read ─► Tree (calls with what they took, the small ones pruned) ─► SVG
//
// A frame is as wide as its share of all; above it are the functions that it called, the widest first. Frames are coloured by whose
// code they are. The same profile gives the same bytes.
//
// The package imports nothing of Lateen.
package flame
