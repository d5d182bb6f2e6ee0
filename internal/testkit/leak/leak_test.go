package leak

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

func TestGoroutineThatNeverEndsIsFound(t *testing.T) {
	end := make(chan struct{})
	go func() { <-end }()
	require.ErrorContains(t, find(0), "TestGoroutineThatNeverEndsIsFound")
	require.Equal(t, 7, Run(func() int { return 7 }), "who fails is not asked what is left")
	close(end)
}

func TestGoroutineThatEndsLateIsWaitedFor(t *testing.T) {
	go func() { <-time.After(time.Second) }()
	require.Zero(t, Run(func() int { return 0 }))
}
