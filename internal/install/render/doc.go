// Package render turns the values of a chart into its objects, with Helm's engine. It says of each
// value that the chart's schema refuses what would be right.
//
//	charts ─┐
//	values ─┼─► coalesce ─► schema ─► templates ─► objects, in the order in which to apply them
//	cluster ┘   (only what templates look up)
//
// It may import the charts alone. The control plane does not link it: templates call methods by
// name, so the linker would keep every method of every type.
package render
