package agent

import (
	"github.com/lateen-mesh/lateen/internal/agent/envoy"
	"github.com/lateen-mesh/lateen/internal/agent/metrics"
)

// services returns what serves beside Envoy.
func services(_ Options, _ *envoy.Supervisor, _ *metrics.Registry) ([]service, error) {
	return nil, nil
}
