package model

// The reasons of the specification for listeners that cannot be told apart.
const (
	ProtocolConflict = "ProtocolConflict"
	HostnameConflict = "HostnameConflict"
)

// ConflictOf returns the reason why two listeners cannot be told apart, or "".
func ConflictOf(a, b *Listener) string {
	switch {
	case a.Port != b.Port:
		return ""
	case (a.TLS == nil) != (b.TLS == nil), a.Protocol.IsHTTP() != b.Protocol.IsHTTP() && a.TLS == nil:
		return ProtocolConflict
	case a.Host == b.Host:
		return HostnameConflict
	}
	return ""
}
