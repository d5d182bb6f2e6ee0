package differences

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// persistentSession are the labels of a Service by which istiod keeps clients with an endpoint.
func persistentSession(s *corev1.Service) (found []Field) {
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if strings.HasPrefix(name, "istio.io/persistent-session") && s.Labels[name] != "" {
			found = append(found, Field{"metadata.labels[" + name + "]", s.Labels[name]})
		}
	}
	return found
}

// topologyMode is the annotation by which hints of EndpointSlices are followed.
func topologyMode(s *corev1.Service) []Field {
	for _, name := range []string{kinds.TopologyAnnotation, kinds.HintsAnnotation} {
		if mode := s.Annotations[name]; mode != "" && !strings.EqualFold(mode, "disabled") {
			return []Field{{"metadata.annotations[" + name + "]", mode}}
		}
	}
	return nil
}
