package serve

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/xds/admission"
)

// written is a connection that keeps what was written.
type written struct {
	net.Conn
	err error

	mu  sync.Mutex
	all [][]byte
}

func (w *written) pieces() [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

func (w *written) lengths() (all []int) {
	for _, p := range w.pieces() {
		all = append(all, len(p))
	}
	return all
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.all = append(w.all, bytes.Clone(p))
	return len(p), nil
}

func coalesced(t require.TestingT, raw net.Conn) net.Conn {
	conn, _, err := newCoalescing(insecure.NewCredentials(), admitAll).ServerHandshake(raw)
	require.NoError(t, err)
	return conn
}

// write is what grpc-go does: full buffers, and then what is left, if anything is.
func write(t require.TestingT, to net.Conn, p []byte) {
	for len(p) > 0 {
		n, err := to.Write(p[:min(len(p), writeBuffer)])
		require.NoError(t, err)
		p = p[n:]
	}
}

func TestLongResponsesAreWrittenInPiecesOf32KiB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes between two writes
		raw := &written{}
		conn := coalesced(t, raw)
		write(t, conn, make([]byte, 300))
		require.Equal(t, []int{300}, raw.lengths(), "a push is written as it is")
		write(t, conn, make([]byte, 5*writeBuffer+1))
		require.Equal(t, []int{300, 5*writeBuffer + 1}, raw.lengths())
		write(t, conn, make([]byte, 2*coalesceBytes+7))
		require.Equal(t, []int{coalesceBytes, coalesceBytes, 7}, raw.lengths()[2:])
		require.Nil(t, conn.(*coalescingConn).pending, "who has written everything has no buffer")
	})
}

func TestWriteThatLooksUnfinishedIsFlushedAfter5ms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		raw := &written{}
		conn := coalesced(t, raw)
		write(t, conn, make([]byte, 2*writeBuffer))
		require.Empty(t, raw.pieces())
		admission.Pause(t.Context(), coalesceDelay)
		synctest.Wait()
		require.Equal(t, []int{2 * writeBuffer}, raw.lengths())

		gone := &written{err: errors.New("it has gone")}
		conn = coalesced(t, gone)
		write(t, conn, make([]byte, writeBuffer))
		admission.Pause(t.Context(), coalesceDelay)
		synctest.Wait()
		_, err := conn.Write([]byte("more"))
		require.ErrorIs(t, err, gone.err)
	})
}

func TestCoalescedWritesHaveTheBytesOfAllWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := &written{}
		conn := coalesced(t, raw)
		var want []byte
		for i, size := range rapid.SliceOf(
			rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 3*coalesceBytes), rapid.Just(writeBuffer)),
		).Draw(t, "sizes") {
			p := bytes.Repeat([]byte{byte(i)}, size)
			want = append(want, p...)
			write(t, conn, p)
		}
		write(t, conn, []byte("end"))
		require.Equal(t, append(want, "end"...), bytes.Join(raw.pieces(), nil))
		for _, p := range raw.pieces() {
			require.LessOrEqual(t, len(p), coalesceBytes+writeBuffer)
		}
	})
}

func TestFailedHandshakeYieldsNoConnection(t *testing.T) {
	raw := &written{}
	b := newCoalescing(stranger{insecure.NewCredentials()}, admitAll)
	_, _, err := b.ServerHandshake(raw)
	require.ErrorIs(t, err, errStranger)
	_, _, err = b.Clone().ServerHandshake(raw)
	require.ErrorIs(t, err, errStranger)
}

var errStranger = errors.New("who is it?")

type stranger struct {
	credentials.TransportCredentials
}

func (s stranger) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errStranger
}

func (s stranger) Clone() credentials.TransportCredentials { return s }

func admitAll(net.Conn) (leave func(), err error) { return func() {}, nil }
