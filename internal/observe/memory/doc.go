// Package memory owns how much memory the process may have, and whether it is near that.
//
//	GOGC, or else 50, and 48 MiB at least          ──► the Go runtime: garbage takes half of what is in use
//	GOMEMLIMIT, or else 90 % of the cgroup's limit ──► the Go runtime: collects in time
//	                                              └──► Limit.Tight: new streams wait (xds/serve)
//
// It imports nothing of ours.
package memory
