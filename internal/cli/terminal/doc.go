// Package terminal writes for people: tables that fit the window, colours, and one progress line
// that is redrawn in place. To a file or a pipe it writes the same text plainly. It imports nothing
// of Lateen.
package terminal
