// Package observe tests what is shipped for looking at a mesh: a real Prometheus scrapes a `lateen
// serve` that has work, and Envoys of `lateen up --observe`, and has data for each panel of the
// dashboards, Istio's stock one for the control plane among them; each metric of a control plane
// moves; promtool tests each alert.
package observe
