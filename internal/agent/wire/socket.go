package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
)

// maxSocketPath is the longest path of a Unix socket that Linux takes.
const maxSocketPath = 107

// Listen listens on a Unix socket. What an earlier agent has left is removed. Only processes of the
// agent's own user may connect: the directory is made for that user alone if there is none, and the
// socket has mode 0600.
func Listen(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("the socket's path %s has %d bytes; want at most %d", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := removeSocket(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// IsServed reports whether somebody listens on a Unix socket, as SPIRE does where it has the place
// of the agent.
func IsServed(path string) bool {
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// removeSocket removes a socket, and nothing that is none.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is no socket; remove it, or name another path", path)
	}
	return os.Remove(path)
}

// window is how much of a stream may be under way before it is read. It bounds what an agent holds.
const window = 256 << 10

// Service is a service of discovery with two methods, one for each variant.
type Service struct {
	Name, Delta, StateOfTheWorld string
	// Handle serves a stream of Messages.
	Handle func(*Variant, grpc.ServerStream) error
}

// Serve serves until ctx ends, and then returns nil.
func (s Service) Serve(ctx context.Context, l net.Listener) error {
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(Codec{}),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.WriteBufferSize(4<<10),
		grpc.ReadBufferSize(4<<10),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.WaitForHandlers(true),
	)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: s.Name,
		HandlerType: (*any)(nil),
		Streams:     []grpc.StreamDesc{s.stream(s.Delta, Delta()), s.stream(s.StateOfTheWorld, StateOfTheWorld())},
	}, nil)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	err := server.Serve(l)
	server.Stop()
	if errors.Is(err, grpc.ErrServerStopped) || ctx.Err() != nil {
		return nil
	}
	return err
}

func (s Service) stream(name string, v *Variant) grpc.StreamDesc {
	return grpc.StreamDesc{
		StreamName:    name,
		ServerStreams: true,
		ClientStreams: true,
		Handler:       func(_ any, stream grpc.ServerStream) error { return s.Handle(v, stream) },
	}
}
