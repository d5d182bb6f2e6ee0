// Package session owns the xDS protocol of one stream, delta and state of the world, as a state machine: in go requests,
// new views and ticks, out come responses to send. It may import view. It knows no goroutine, socket or clock (time is an
// argument), and nothing of Istio's API.
package session
