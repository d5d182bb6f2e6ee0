// Package remote finds control planes and asks them: one at an address, or all replicas in a
// cluster, as the flags of a command say.
//
// It may import admin/page, cli/command, install/reach and perf/measure.
package remote
