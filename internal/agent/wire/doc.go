// Package wire is what the parts of the agent share: the connection to the control plane, the Unix
// sockets that Envoy connects to, a codec that passes messages on undecoded, and backoff.
//
// The agent runs beside every Envoy, so its memory counts. Messages stay in the buffers in which
// they arrived, and the few fields that are needed are read in place (Reader). No generated code of
// Envoy's API is linked.
//
// It may import api/compliance.
package wire
