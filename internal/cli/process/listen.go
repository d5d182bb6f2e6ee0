package process

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/cli/command"
)

// ListenFlags are the addresses of the control plane, on loopback by default.
type ListenFlags struct {
	XDS, Monitoring   string
	insecurePlaintext bool
	// TrustPlaintext believes proxies without a token.
	TrustPlaintext bool
}

// Bind binds the flags to a command.
func (f *ListenFlags) Bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.XDS, "xds-address", "127.0.0.1:15010", "where to serve xDS, in plaintext")
	cmd.Flags().StringVar(&f.Monitoring, "monitoring-address", "127.0.0.1:15014", "where to serve /metrics and /debug")
	cmd.Flags().BoolVar(
		&f.insecurePlaintext,
		"insecure-plaintext",
		false,
		"allow an --xds-address that is no loopback address, where the network can read configuration and tokens",
	)
	command.HostPort(cmd.Flags(), "xds-address", &f.XDS)
	command.HostPort(cmd.Flags(), "monitoring-address", &f.Monitoring)
}

// Listen opens both. What is not for loopback needs a flag that says so.
func (f *ListenFlags) Listen() (xds, monitoring net.Listener, err error) {
	if xds, err = ListenAt(f.XDS, "--xds-address"); err != nil {
		return nil, nil, err
	}
	if !isLoopback(xds) && !f.insecurePlaintext && !f.TrustPlaintext {
		_ = xds.Close()
		return nil, nil, fmt.Errorf("--xds-address %s is no loopback address, and what it serves is in plaintext; "+
			"want 127.0.0.1:PORT, --secure-xds-address for TLS, or --insecure-plaintext if the network is trusted",
			f.XDS)
	}
	if monitoring, err = ListenAt(f.Monitoring, "--monitoring-address"); err != nil {
		_ = xds.Close()
		return nil, nil, err
	}
	return xds, monitoring, nil
}

// Plaintext says how clients of the plaintext listener prove who they are.
func (f *ListenFlags) Plaintext(l net.Listener, trustLoopback bool) app.PlaintextListener {
	local := isLoopback(l)
	return app.PlaintextListener{
		Address:       l.Addr(),
		TrustsAll:     f.TrustPlaintext || local && trustLoopback,
		RefusesTokens: !local && !f.insecurePlaintext,
	}
}

func isLoopback(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// ListenAt listens at an address that a flag has.
func ListenAt(address, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf(
			"%s %s: %w; is another lateen running? Another address can be given with %s (port 0 takes a free one)",
			flag,
			address,
			err,
			flag,
		)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w; want an address of this machine", flag, address, err)
	}
	return l, nil
}
