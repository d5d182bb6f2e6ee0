package traffic

import (
	"context"
	"fmt"
	"strings"

	"fortio.org/fortio/fgrpc"
	"fortio.org/fortio/fhttp"
	"fortio.org/fortio/tcprunner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Protocol is what requests are sent in.
type Protocol string

// The protocols.
const (
	HTTP1 Protocol = "http"
	HTTP2 Protocol = "http2"
	GRPC  Protocol = "grpc"
	TCP   Protocol = "tcp"
)

// Protocols returns all protocols in the order in which help texts name them.
func Protocols() []string {
	return []string{string(HTTP1), string(HTTP2), string(GRPC), string(TCP)}
}

// Target is where requests go, and what they are.
type Target struct {
	Protocol Protocol
	// Address is the IP address and port that clients connect to.
	Address string
	// Authority is the Host header, or :authority. Empty stands for the address. TCP has none.
	Authority string
	// Payload is the number of bytes in the body of a request, which the server sends back.
	Payload int
}

// client is one connection. It sends one request at a time.
type client interface {
	// do sends a request and waits for the whole answer.
	do(ctx context.Context) error
	close()
}

// open returns a client of the target. It may connect with its first request only.
func (t Target) open() (client, error) {
	switch t.Protocol {
	case HTTP1, HTTP2:
		return t.openHTTP()
	case GRPC:
		return t.openGRPC()
	case TCP:
		return t.openTCP()
	}
	return nil, fmt.Errorf("protocol %q: want one of %s", t.Protocol, strings.Join(Protocols(), ", "))
}

func (t Target) body() []byte { return []byte(strings.Repeat("x", t.Payload)) }

type httpClient struct{ fetcher fhttp.Fetcher }

func (t Target) openHTTP() (client, error) {
	o := fhttp.NewHTTPOptions("http://" + t.Address + "/echo")
	o.NumConnections, o.Payload = 1, t.body()
	o.H2, o.DisableFastClient = t.Protocol == HTTP2, t.Protocol == HTTP2
	if t.Authority != "" {
		if err := o.AddAndValidateExtraHeader("Host: " + t.Authority); err != nil {
			return nil, fmt.Errorf("the Host header %q: %w", t.Authority, err)
		}
	}
	fetcher, err := fhttp.NewClient(o)
	if err != nil {
		return nil, err
	}
	return httpClient{fetcher}, nil
}

func (c httpClient) do(ctx context.Context) error {
	switch code, _, _ := c.fetcher.StreamFetch(ctx); code {
	case 200:
		return nil
	case fhttp.SocketError:
		return fmt.Errorf("no answer")
	default:
		return fmt.Errorf("status %d", code)
	}
}

func (c httpClient) close() { c.fetcher.Close() }

type grpcClient struct {
	connection *grpc.ClientConn
	ping       fgrpc.PingServerClient
	message    *fgrpc.PingMessage
}

func (t Target) openGRPC() (client, error) {
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if t.Authority != "" {
		options = append(options, grpc.WithAuthority(t.Authority))
	}
	connection, err := grpc.NewClient("passthrough:///"+t.Address, options...)
	if err != nil {
		return nil, err
	}
	return grpcClient{
		connection: connection,
		ping:       fgrpc.NewPingServerClient(connection),
		message:    &fgrpc.PingMessage{Payload: string(t.body())},
	}, nil
}

func (c grpcClient) do(ctx context.Context) error {
	_, err := c.ping.Ping(ctx, c.message)
	return err
}

func (c grpcClient) close() { _ = c.connection.Close() }

type tcpClient struct{ client *tcprunner.TCPClient }

func (t Target) openTCP() (client, error) {
	c, err := tcprunner.NewTCPClient(&tcprunner.TCPOptions{Destination: "tcp://" + t.Address, Payload: t.body()})
	if err != nil {
		return nil, err
	}
	return tcpClient{c}, nil
}

func (c tcpClient) do(context.Context) error {
	_, err := c.client.Fetch()
	return err
}

func (c tcpClient) close() { c.client.Close() }
