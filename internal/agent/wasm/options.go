package wasm

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/metrics"
)

// Options say how modules are fetched and kept.
type Options struct {
	// Dir has the files. It is made for the agent's own user alone.
	Dir string
	// MaxBytes is the largest module. All files together have at most four times that; those that
	// were not asked for the longest go first, and those of filters in force never.
	MaxBytes int64
	// Expiry is how long a file is kept that nobody asks for, PurgeInterval how often that is seen.
	Expiry, PurgeInterval time.Duration
	// Timeout is that of one request by HTTP, and Attempts how many there are at most.
	Timeout  time.Duration
	Attempts int
	// Insecure are hosts ("host:port", or "*") whose certificates are not verified, and that are
	// asked by HTTP without TLS where they answer so.
	Insecure []string
	// Registries are the hosts that modules may be fetched from; all if there are none. Those of
	// redirects by HTTP and of layers that are elsewhere count too; those to which a registry sends
	// for its own layers and tokens do not.
	Registries []string
	// Private are networks that are not public and may be called all the same.
	Private []netip.Prefix
	// Blocked are networks that may not be called in any case.
	Blocked []netip.Prefix
	Metrics *metrics.Registry
	Log     *slog.Logger
	Now     func() time.Time
}

// isInsecure reports whether a host, with or without the port of HTTPS, is an Insecure one.
func (o *Options) isInsecure(host string) bool {
	return slices.ContainsFunc(o.Insecure, func(of string) bool {
		return of == "*" || strings.TrimSuffix(of, ":443") == strings.TrimSuffix(host, ":443")
	})
}

func (o *Options) isAllowed(host string) bool {
	return len(o.Registries) == 0 || slices.Contains(o.Registries, host)
}

// PullPolicy says when a reference without a checksum is fetched again.
type PullPolicy string

// The policies, as the control plane names them. Without one an image whose tag is latest is
// fetched Always.
const (
	IfNotPresent PullPolicy = "IfNotPresent"
	Always       PullPolicy = "Always"
)

// Request is a module that a filter wants.
type Request struct {
	URL string // http://, https:// or oci://
	// Checksum is that of the module or, of an image, of its manifest, in hexadecimal digits; empty
	// for any.
	Checksum string
	// Resource is the name of the filter, and Version changes with its object.
	Resource, Version string
	Policy            PullPolicy
	// Secret is a Docker configuration with credentials of registries; nil for none.
	Secret []byte
	// Timeout is that of the whole fetch.
	Timeout time.Duration
}
