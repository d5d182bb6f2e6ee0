// Package charts holds the Helm charts that install Lateen: base (Istio's kinds and the certificate
// authority's Secret), lateen (a control plane) and gateway. It imports nothing of Lateen.
//
// Two files of the charts are generated. `go test ./internal/install/render -update` copies the
// kinds from the module istio.io/api, and derives the rights from the table of kinds.
package charts

import "embed"

// FS holds the directories base, lateen and gateway.
//
//go:embed all:base all:lateen all:gateway
var FS embed.FS

// Rules are the recording rules and alerts for Prometheus, in YAML.
//
//go:embed lateen/files/monitoring/rules.yaml
var Rules []byte

// DashboardDir is where FS has the dashboards for Grafana, as JSON.
const DashboardDir = "lateen/files/monitoring/dashboards"
