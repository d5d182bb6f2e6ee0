// Package gotemplate evaluates text/template with the functions of Sprig, within bounds.
//
//	text ─► text/template ─► bounded (steps, depth, functions) ─► Execute(data) ─► bytes
//
// Templates come from users. So evaluation is bounded in steps, depth, output and what functions
// make, reads neither environment nor clock nor chance, and a panic is an error.
//
// It may import source/untrusted.
package gotemplate
