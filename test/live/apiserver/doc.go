// Package apiserver tests `lateen serve` against a real API server that fails: it stops and comes
// back, forgets its history, breaks connections, answers slowly, and holds objects that nobody
// refused. What is counted is what proxies were sent, from outside.
package apiserver
