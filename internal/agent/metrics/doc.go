// Package metrics owns what the agent counts and how Prometheus reads it: counters and gauges with
// fixed labels, in the text format. A client library would cost a tenth of the agent's memory.
//
// It may import nothing of the product.
package metrics
