//go:build !linux

package sidecar

import (
	"errors"
	"net/netip"
	"time"
)

var errPlatform = errors.New("simulated sidecars need epoll, which only Linux has")

type interest struct{ read, write bool }

type readiness struct {
	token               token
	read, write, broken bool
}

type token struct{ slot, generation int32 }

type poller struct{}

func newPoller() (*poller, error)                                    { return nil, errPlatform }
func (*poller) close()                                               {}
func (*poller) add(int, token, interest) error                       { return errPlatform }
func (*poller) change(int, token, interest) error                    { return errPlatform }
func (*poller) wait(time.Duration, []readiness) ([]readiness, error) { return nil, errPlatform }
func (*poller) wake()                                                {}
func dial(netip.AddrPort, netip.Addr) (int, error)                   { return -1, errPlatform }
func dialed(int) error                                               { return errPlatform }
func receive(int, []byte) (int, error)                               { return 0, errPlatform }
func transmit(int, []byte) (int, error)                              { return 0, errPlatform }
func closeSocket(int)                                                {}
