package differences

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// topologyMode is the annotation by which hints of EndpointSlices are followed.
func topologyMode(s *corev1.Service) []Field {
	for _, name := range []string{kinds.TopologyAnnotation, kinds.HintsAnnotation} {
		if mode := s.Annotations[name]; mode != "" && !strings.EqualFold(mode, "disabled") {
			return []Field{{"metadata.annotations[" + name + "]", mode}}
		}
	}
	return nil
}
