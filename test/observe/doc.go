// Package observe tests what is shipped for looking at a control plane: a real Prometheus scrapes a
// `lateen serve` that has work, and has data for each panel of the dashboards, Istio's stock one
// among them; promtool tests each alert.
package observe
