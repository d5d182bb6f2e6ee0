// Package cli owns the commands of lateen: the control plane (serve), a mesh on this machine (up),
// and the tools to look at both (status, proxy-config) and to measure (perf). A command's
// constructor is newNAME in NAME.go; a long command has more files that begin with its name. It
// reads flags and the environment, and nothing below it does.
//
// It may import every package of the product.
package cli
