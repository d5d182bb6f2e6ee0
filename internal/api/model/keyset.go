package model

// KeySet is the set of public keys that the control plane has fetched from one address.
type KeySet struct {
	Meta
	URI string
	// Keys is the set in its canonical form (package jwks); empty if it has never been fetched.
	Keys string
	// Error says why it could not be; empty beside Keys.
	Error string
}
