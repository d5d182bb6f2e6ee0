// Package memory owns how much memory the process may use, and whether it is near that limit.
//
//	GOGC, or else 50 and 48 MiB at least        ─► Go runtime: garbage takes half of what is in use
//	GOMEMLIMIT, or else 90 % of cgroup's limit ─┬► Go runtime: collects in time
//	                                            └► Limit.Tight: new streams wait (xds/serve)
//
// It imports nothing of ours.
package memory
