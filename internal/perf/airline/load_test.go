package airline

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// answers stands in for all services: it answers each request with JSON's null at once.
type answers struct{}

func (answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("null"))}, nil
}

func thinking(think time.Duration) *visitor {
	return &visitor{
		load: Load{Think: think}, client: &http.Client{Transport: answers{}},
		result: Result{Requests: map[string]int{}},
	}
}

// TestAClientWaitsAfterEachRequest for the think time, and not beyond the end of the load.
func TestAClientWaitsAfterEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, c := time.Now(), thinking(time.Minute)
		c.session(t.Context(), 0)
		require.Empty(t, c.result.Why)
		require.Equal(t, 1, c.result.Requests[Logout], "the last of a session")
		require.Equal(t, time.Duration(c.result.Total())*time.Minute, time.Since(began))
	})
	synctest.Test(t, func(t *testing.T) {
		began, c := time.Now(), thinking(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		c.session(ctx, 0)
		require.Equal(t, 2, c.result.Total())
		require.Zero(t, c.result.Failed, "what was under way at the end counts neither way")
		require.Equal(t, 90*time.Minute, time.Since(began))
	})
	synctest.Test(t, func(t *testing.T) {
		began, c := time.Now(), thinking(0)
		c.session(t.Context(), 0)
		require.Zero(t, time.Since(began))
	})
}
