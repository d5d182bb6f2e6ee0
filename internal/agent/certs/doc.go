// Package certs has the certificates of a proxy: it asks for them, renews them, and serves them to
// Envoy over SDS.
//
//	CA ◄── CSR, token ── Manager ──► secrets ──► Server ── Unix socket ── Envoy
//	files (file-cert:, file-root:, mounted) ──────┘
//
// The key is made here and leaves the process towards Envoy alone, unless OUTPUT_CERTS asks for
// files. It stays in a file for the next start, if that file is in memory. A certificate is
// renewed, with a new key, when a jittered part of its life is left. What is in force stays in
// force until there is something better: a CA that is away, a file that is cut in half or a
// certificate without its key change nothing.
//
// Trusted are the roots of the CA's answer, of the root file and of the trust bundle, all together.
// So a root that is about to be replaced and its successor overlap.
//
// It may import agent/wire and xds/typeurl.
package certs
