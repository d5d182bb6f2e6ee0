package serve

import (
	"errors"
	"net/netip"

	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/cli/process"
)

// checkLogControl reports an address that other machines may reach, since nobody proves who they
// are there.
func (o *serveOptions) checkLogControl() error {
	if o.logControl == "" {
		return nil
	}
	at, err := netip.ParseAddrPort(o.logControl)
	if err != nil || !at.Addr().IsLoopback() {
		return errors.New("want a loopback address and a port, as 127.0.0.1:9876")
	}
	return nil
}

// controlLog opens where the level of the log is changed.
func (o *serveOptions) controlLog() (app.LogControl, error) {
	if o.logControl == "" {
		return app.LogControl{}, nil
	}
	l, err := process.ListenAt(o.logControl, "--log-control-address")
	return app.LogControl{Listener: l, Level: o.log.Now}, err
}
