// Package gotemplate evaluates Go templates, in the language of text/template, without calling
// methods by computed names.
//
//	text ─► text/template/parse ─► Execute(data) ─► bytes
//
// text/template calls methods by name, and so the linker would keep every method of every type of
// the program (21 MB). This evaluator reads struct fields, map entries and elements, and calls
// functions alone. A field GetX of a struct is its field X, as generated getters have it; String
// works where a value has it.
//
// Templates come from users, so evaluation is bounded in steps, output and depth, reads neither
// environment nor clock, and returns errors where text/template would.
//
// It may import nothing of Lateen.
package gotemplate
