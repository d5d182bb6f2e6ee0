package model

// Stated is what a Pod says of its own proxy, in the annotation proxy.istio.io/config. It stands
// over the mesh configuration.
type Stated struct {
	// Headers take the place of the mesh's; nil leaves those.
	Headers *ProxyHeaders
	// Connections, too, take the place of the mesh's, canonical; nil leaves those.
	Connections *ConnectionSettings
	Tracing     StatedTracing
}

// StatedTracing is how calls are traced where no Telemetry says so. What is not set leaves what the
// mesh configuration says.
type StatedTracing struct {
	// Sampling is in hundredths of a percent; 0 is not set, as in Istio.
	Sampling      uint32
	MaxPathLength uint32     // 0 is not set
	Tags          []TraceTag // they replace the mesh's, if there are any
	// IstioTags counts where spans go by an address of the mesh configuration.
	IstioTags *bool
}

// IsZero reports whether nothing is said.
func (s *Stated) IsZero() bool { return Equal(*s, Stated{}) }

// Over returns the mesh configuration with what a Pod states; the same if it states nothing. A nil
// Stated states nothing.
func (s *Stated) Over(mesh *MeshConfig) *MeshConfig {
	if s == nil {
		return mesh
	}
	own := *mesh
	if s.Headers != nil {
		own.Headers = *s.Headers
	}
	t := &own.Tracing
	if s.Tracing.Sampling != 0 {
		t.Sampling = s.Tracing.Sampling
	}
	if s.Tracing.MaxPathLength != 0 {
		t.MaxPathLength = s.Tracing.MaxPathLength
	}
	if len(s.Tracing.Tags) > 0 {
		t.Tags = s.Tracing.Tags
	}
	if s.Tracing.IstioTags != nil && mesh.LegacyTracer {
		t.NoIstioTags = !*s.Tracing.IstioTags
	}
	return &own
}
