package model

import (
	"cmp"
	"time"
)

// ConnectionSettings are those of connections and requests that come to a proxy
// (ProxyConfig.connectionSettings). A zero value leaves Istio's default; of a duration, Never
// switches the limit off.
type ConnectionSettings struct {
	// Edge gives gateways Envoy's recommendations for edges where nothing is set (profile EDGE).
	Edge bool
	// BufferLimit is how many bytes a connection of a gateway's listener may have in its buffers.
	BufferLimit uint32

	IdleTimeout           time.Duration // without requests
	MaxConnectionDuration time.Duration
	DrainTimeout          time.Duration // from the notice to the end
	RequestTimeout        time.Duration // for all of the request
	RequestHeadersTimeout time.Duration
	StreamIdleTimeout     time.Duration
	MaxStreamDuration     time.Duration

	// MaxStreams is how many requests a connection of HTTP/2 may have at a time. The windows are
	// those of its flow control, in bytes.
	MaxStreams                     uint32
	StreamWindow, ConnectionWindow uint32

	Underscores    HeadersWithUnderscores
	MergeSlashes   *bool // over MeshConfig.pathNormalization; nil leaves that
	EscapedSlashes EscapedSlashes
}

// HeadersWithUnderscores is what happens to headers with an underscore in their names.
type HeadersWithUnderscores uint8

// The default lets them pass.
const (
	UnderscoresUnset HeadersWithUnderscores = iota
	UnderscoresPass
	UnderscoresRefuse // the request, with 400
	UnderscoresDrop   // the header
)

// EscapedSlashes is what happens to slashes in paths that are escaped (%2F, %5C).
type EscapedSlashes uint8

// The default is that of MeshConfig.pathNormalization.
const (
	SlashesUnset EscapedSlashes = iota
	SlashesStay
	SlashesRefuse   // the request, with 400
	SlashesRedirect // to the path without
	SlashesDecode
)

// At returns what is in force at a gateway or a sidecar: nil for a nil receiver.
func (s *ConnectionSettings) At(gateway bool) *ConnectionSettings {
	if s == nil {
		return nil
	}
	own := *s
	own.Edge = false
	if !gateway {
		own.BufferLimit = 0
		return &own
	}
	if !s.Edge {
		return &own
	}
	own.BufferLimit = cmp.Or(own.BufferLimit, 32<<10)
	own.IdleTimeout = cmp.Or(own.IdleTimeout, time.Hour)
	own.StreamIdleTimeout = cmp.Or(own.StreamIdleTimeout, 5*time.Minute)
	own.RequestTimeout = cmp.Or(own.RequestTimeout, 5*time.Minute)
	own.RequestHeadersTimeout = cmp.Or(own.RequestHeadersTimeout, time.Minute)
	own.MaxStreams = cmp.Or(own.MaxStreams, 100)
	own.StreamWindow = cmp.Or(own.StreamWindow, 64<<10)
	own.ConnectionWindow = cmp.Or(own.ConnectionWindow, 1<<20)
	own.Underscores = cmp.Or(own.Underscores, UnderscoresRefuse)
	own.EscapedSlashes = cmp.Or(own.EscapedSlashes, SlashesRedirect)
	if own.MergeSlashes == nil {
		merge := true
		own.MergeSlashes = &merge
	}
	return &own
}
