package port

import (
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPortIsKeptForThoseWhoAskForIt(t *testing.T) {
	h, err := Reserve()
	require.NoError(t, err)
	defer h.Release()
	for range 3 {
		_, err = net.Dial("tcp", h.Address)
		require.ErrorIs(t, err, syscall.ECONNREFUSED, "nobody listens")
		l, err := net.Listen("tcp", h.Address)
		require.NoError(t, err)
		c, err := net.Dial("tcp", h.Address)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.NoError(t, l.Close())
	}
	h.Release()
	h.Release()
}

// TestNobodyGetsAPortByChance takes all that the kernel gives away until it is out of them, or has
// given a thousand.
func TestNobodyGetsAPortByChance(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux keeps ports")
	}
	h, err := Reserve()
	require.NoError(t, err)
	defer h.Release()
	for range 1000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			break
		}
		defer func() { _ = l.Close() }()
		require.NotEqual(t, h.Address, l.Addr().String())
	}
}
