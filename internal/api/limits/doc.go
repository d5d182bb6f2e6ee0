// Package limits owns what RateLimits come to: patches that add Envoy's rate limit filters to
// proxies, and routes that turn them on.
//
//	ratelimit.Spec ──► Patches ──► []*model.ConfigPatch
//
// A filter has all limits of an object. Each limit makes a descriptor of a request: its name where
// its conditions hold (an expression in CEL), and the values that requests are told apart by. The
// proxy looks for the descriptor among its token buckets, or asks a server.
//
// Its functions are pure, and take what the conversion has checked.
// It may import api/ratelimit and api/model.
package limits
