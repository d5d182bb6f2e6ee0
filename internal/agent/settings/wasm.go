package settings

import (
	"net/netip"
	"strings"
	"time"
)

// wasm reads how modules of Wasm filters are fetched.
func (e *environment) wasm(s *Settings) {
	s.Wasm = Wasm{
		Enabled:        e.flag("ISTIO_AGENT_ENABLE_WASM_REMOTE_LOAD_CONVERSION", true),
		Dir:            wasmDir,
		MaxBytes:       int64(e.count("ISTIO_WASM_MAX_BINARY_SIZE_BYTES", 256<<20)),
		Expiry:         e.positive("WASM_MODULE_EXPIRY", 24*time.Hour),
		PurgeInterval:  e.positive("WASM_PURGE_INTERVAL", time.Hour),
		RequestTimeout: e.positive("WASM_HTTP_REQUEST_TIMEOUT", 15*time.Second),
		MaxRetries:     e.count("WASM_HTTP_REQUEST_MAX_RETRIES", 5),
		Insecure:       e.list("WASM_INSECURE_REGISTRIES"),
		Registries:     e.list("LATEEN_WASM_REGISTRIES"),
		Private:        e.networks("LATEEN_WASM_PRIVATE_NETWORKS"),
		Blocked:        e.networks("BLOCKED_CIDRS_IN_WASM_FETCH"),
	}
}

// positive reads a duration above 0.
func (e *environment) positive(name string, fallback time.Duration) time.Duration {
	d := e.duration(name, fallback)
	if d == 0 {
		e.refuse(name, "0 is too short; want a duration as 5s or 1h30m")
	}
	return d
}

// list reads texts between commas.
func (e *environment) list(name string) (all []string) {
	for text := range strings.SplitSeq(e.text(name, ""), ",") {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// networks reads networks between commas.
func (e *environment) networks(name string) (all []netip.Prefix) {
	for _, text := range e.list(name) {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			e.refuse(name, "%q is no network; want some as 10.0.0.0/8, between commas", text)
			continue
		}
		all = append(all, p.Masked())
	}
	return all
}
