package admission

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSendQueueWaitsWhileItIsFull(t *testing.T) {
	var total atomic.Int64
	q := SendQueue{Total: &total}
	q.Add(SendQueueLimit)
	require.False(t, q.IsFull())
	require.NoError(t, q.Wait(t.Context()))
	q.Add(1)
	require.True(t, q.IsFull())

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, q.Wait(ended), context.Canceled)

	waited := make(chan error)
	go func() { waited <- q.Wait(t.Context()) }()
	q.Add(-1)
	require.NoError(t, <-waited)
	require.EqualValues(t, SendQueueLimit, total.Load())

	q.Close()
	require.Zero(t, total.Load(), "a stream that has ended has nothing unsent")
	q.Add(-SendQueueLimit)
	require.Zero(t, total.Load())
}
