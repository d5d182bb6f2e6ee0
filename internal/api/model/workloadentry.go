package model

// WorkloadEntry is one workload that is no Pod (networking.istio.io/v1 WorkloadEntry): it is an endpoint of the services of
// its namespace whose selector matches its labels.
type WorkloadEntry struct {
	Meta
	Labels   Labels
	Address  string    // an IP literal
	Ports    PortNames // numbers by the name of a service port, or of a named target port
	Weight   uint32    // 0 means 1
	Locality Locality
	Account  string // its service account; empty if it says none
	Health   Health
	// Withheld entries are unhealthy and serve nobody, but callers accept their account.
	Withheld bool
}

// Serves returns the port at which the workload serves a service port, 0 if it does not. A number in the entry, by the name
// of the target port or else of the service port, comes before the target port of the service.
func (w *WorkloadEntry) Serves(p ServicePort) uint16 {
	if p.TargetName != "" {
		return w.Ports.Number(p.TargetName)
	}
	if number := w.Ports.Number(p.Name); number != 0 {
		return number
	}
	return p.Target
}
