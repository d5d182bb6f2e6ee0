package traffic

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"fortio.org/fortio/fgrpc"
	"fortio.org/fortio/fhttp"
	"fortio.org/fortio/fnet"
)

// Port returns the port at which Serve answers a protocol.
func (p Protocol) Port() int {
	switch p {
	case HTTP2:
		return 8081
	case GRPC:
		return 8079
	case TCP:
		return 8078
	default:
		return 8080
	}
}

// Serve runs Fortio's echo servers for all protocols at an IP address until the context ends.
func Serve(ctx context.Context, address string) error {
	at := func(p Protocol) string { return net.JoinHostPort(address, strconv.Itoa(p.Port())) }
	for _, p := range []Protocol{HTTP1, HTTP2} {
		mux, bound := fhttp.HTTPServer("echo", at(p))
		if bound == nil {
			return fmt.Errorf("%s cannot be opened: want a free port", at(p))
		}
		mux.HandleFunc("/", fhttp.EchoHandler)
	}
	if fgrpc.PingServer(at(GRPC), "", 0, &fhttp.TLSOptions{}) == nil {
		return fmt.Errorf("%s cannot be opened: want a free port", at(GRPC))
	}
	if fnet.TCPEchoServer("echo", at(TCP)) == nil {
		return fmt.Errorf("%s cannot be opened: want a free port", at(TCP))
	}
	<-ctx.Done()
	return nil
}
