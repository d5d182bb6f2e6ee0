// Package advise says what to tune in a mesh, as a guide for operators would: which of the four
// golden signals is off, what the bottleneck is, and which lever helps, with evidence and with the
// effect that the model of costs (perf/sizing) expects.
//
//	Facts (metrics over a window, census, proxies, calls, settings) ──► Advise ──► Report
//	                                                                      │
//	                                             rules: a table, one entry for each lever
//
// It is pure: package collect gathers the facts, and cli applies what a finding says. It may import
// api/kinds, api/model, mesh/census, perf/measure and perf/sizing.
package advise
