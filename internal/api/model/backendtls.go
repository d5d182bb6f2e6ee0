package model

// BackendTLSPolicy says how Services are called in TLS, as it is written. What it comes to depends
// on Services, ConfigMaps and other policies: the state makes a BackendPolicy for each Service.
type BackendTLSPolicy struct {
	Meta
	Targets []BackendTarget
	// TLS is without its authorities. One that cannot be in force is Unusable.
	TLS ClientTLS
	// Bundles are the names of the ConfigMaps of its namespace with the authorities; without any,
	// those that the proxy's system trusts are meant.
	Bundles []string
	// Accepted and ResolvedRefs are what the object alone says.
	Accepted, ResolvedRefs Condition
}

// BackendTarget is a Service that a BackendTLSPolicy is for.
type BackendTarget struct {
	Service string
	Host    Host
	Section string // the name of a port; empty for all that no other policy names
}

// BackendPolicy says how the clients of a Service secure their connections where their
// DestinationRule does not say so: its tls alone. The policy is canonical (Pool).
type BackendPolicy struct {
	Meta   // of the Service
	Host   Host
	Policy *TrafficPolicy
}

// CertificateBundle are the authorities that a ConfigMap holds.
type CertificateBundle struct {
	Meta
	// Certificates are in PEM; empty if they cannot be used, for which Broken says why.
	Certificates string
	Broken       string
}
