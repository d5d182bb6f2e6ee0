package model

import "net/netip"

// WorkloadEntry is a workload that is no Pod (networking.istio.io/v1 WorkloadEntry). It is an
// endpoint of the services of its namespace that select its labels.
type WorkloadEntry struct {
	Meta
	Labels   Labels
	Address  string    // an IP literal, or a host name, which callers look up
	Ports    PortNames // numbers by the name of a service port, or of a named target port
	Weight   uint32    // 0 means 1
	Locality Locality
	Account  string // its service account; empty if it names none
	Health   Health
	// Withheld entries are unhealthy and serve nobody, but callers accept their account.
	Withheld bool
}

// IsNamed reports whether the address is a host name. Such a workload serves those that look names
// up.
func (w *WorkloadEntry) IsNamed() bool {
	_, err := netip.ParseAddr(w.Address)
	return err != nil
}

// Serves returns the port at which the workload serves a service port, 0 if it does not. A number
// in the entry, under the name of the target port or else of the service port, comes before the
// service's target port.
func (w *WorkloadEntry) Serves(p ServicePort) uint16 {
	if p.TargetName != "" {
		return w.Ports.Number(p.TargetName)
	}
	if number := w.Ports.Number(p.Name); number != 0 {
		return number
	}
	return p.Target
}
