package sizing

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// DataPlane are the measured costs of requests to proxies.
type DataPlane struct {
	Version string          `json:"version"`
	Command string          `json:"command"`
	Machine measure.Machine `json:"machine"`
	// QPS is how many requests a second were sent, over so many connections, with bodies of so many
	// bytes, to proxies with so many worker threads.
	QPS         float64 `json:"qps"`
	Connections int     `json:"connections"`
	Payload     int     `json:"payloadBytes"`
	Workers     int     `json:"workers"`
	// Cases are the same requests with telemetry and access logs on and off.
	Cases []DataPlaneCase `json:"cases"`
}

// DataPlaneCase are the proxies of one case.
type DataPlaneCase struct {
	Telemetry  bool `json:"telemetry"`
	AccessLogs bool `json:"accessLogs"`
	// Client and Server are the sidecars of a call, Gateway is an ingress gateway.
	Client  ProxyCost `json:"client"`
	Server  ProxyCost `json:"server"`
	Gateway ProxyCost `json:"gateway"`
}

// ProxyCost is what one proxy takes: CPUs for 1,000 requests a second, and resident bytes.
type ProxyCost struct {
	Cores float64 `json:"coresPer1000"`
	Bytes float64 `json:"residentBytes"`
}

//go:embed dataplane.json
var storedDataPlane []byte

// StoredDataPlane returns the costs that were measured for this version or a slightly older one.
func StoredDataPlane() (DataPlane, error) {
	var d DataPlane
	if err := yaml.UnmarshalStrict(storedDataPlane, &d); err != nil {
		return d, fmt.Errorf("costs of the data plane: %w", err)
	}
	return d, nil
}

// Case returns a case, or one of zeros if it was not measured.
func (d DataPlane) Case(telemetry, accessLogs bool) DataPlaneCase {
	for _, c := range d.Cases {
		if c.Telemetry == telemetry && c.AccessLogs == accessLogs {
			return c
		}
	}
	return DataPlaneCase{}
}

// AccessLogs returns the CPUs that both sidecars of a call take more for 1,000 requests a second if
// each is logged. Noise may make it negative, which counts as 0.
func (d DataPlane) AccessLogs() float64 {
	on, off := d.Case(true, true), d.Case(true, false)
	return max(0, on.Client.Cores+on.Server.Cores-off.Client.Cores-off.Server.Cores)
}

// Need is what all proxies of a mesh take together.
type Need struct {
	Cores float64 `json:"cores"`
	Bytes float64 `json:"memoryBytes"`
}

// Need returns what sidecars and gateways take for so many calls a second within the mesh, each
// through two sidecars, and so many from outside, each through a gateway and a sidecar. Telemetry
// is on and access logs are off, as in an installation.
func (d DataPlane) Need(calls, ingress float64, sidecars int) Need {
	c := d.Case(true, false)
	return Need{
		Cores: (calls*(c.Client.Cores+c.Server.Cores) + ingress*(c.Gateway.Cores+c.Server.Cores)) / 1000,
		Bytes: float64(sidecars) * max(c.Client.Bytes, c.Server.Bytes),
	}
}
