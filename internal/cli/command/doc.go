// Package command owns what the programs for people share: how a command line is judged, what help
// looks like, and exit codes. It may import cli/terminal.
package command
