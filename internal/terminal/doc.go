// Package terminal writes for people: tables that fit the window, colours where they are wanted,
// and one line of progress that renews itself. To a file or a pipe it writes the same words
// plainly. It imports nothing of Lateen.
package terminal
