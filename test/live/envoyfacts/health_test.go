package envoyfacts

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
)

// TestEjectionHidesTheHealthStatus_1_14 is why clusters with outlier detection have
// update_merge_window 0: an endpoint that has died must get no request once its callers have
// acknowledged that, whatever they had found out by themselves.
func TestEjectionHidesTheHealthStatus_1_14(t *testing.T) {
	fact(t, "a health status holds with its ACK, however long changes are merged", func(t *testing.T, r *adscript.Run) {
		h := newHealth(t, r, never)
		h.push(corev3.HealthStatus_UNHEALTHY)
		h.requireGone()
	})
	fact(t, "an ejection waits to be merged", func(t *testing.T, r *adscript.Run) {
		h := newHealth(t, r, never)
		h.eject()
		h.requireCalled()
	})
	fact(t, "a health status behind an ejection that waits is acknowledged, and waits too",
		func(t *testing.T, r *adscript.Run) {
			h := newHealth(t, r, never)
			h.eject()
			h.push(corev3.HealthStatus_UNHEALTHY)
			h.requireCalled()
		})
	fact(t, "an ejection holds at once if nothing is merged", func(t *testing.T, r *adscript.Run) {
		h := newHealth(t, r, 0)
		h.eject()
		h.requireGone()
		h.push(corev3.HealthStatus_UNHEALTHY)
		h.requireGone()
	})
}

// health is a cluster of two endpoints behind listener l: one stays well, the other answers 500
// from the start.
type health struct {
	t           *testing.T
	r           *adscript.Run
	stays, goes string
}

// newHealth gives Envoy the cluster with the endpoint that stays, and adds the other one: a change
// from which on others are merged for the time of the window.
func newHealth(t *testing.T, r *adscript.Run, window time.Duration) *health {
	t.Helper()
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(failing.Close)
	h := &health{t: t, r: r, stays: backend(t, "stays"), goes: failing.Listener.Addr().String()}
	start(r)
	c := adscript.EDSCluster("c", "", never)
	c.CommonLbConfig.UpdateMergeWindow = durationpb.New(window)
	c.CommonLbConfig.HealthyPanicThreshold = &typev3.Percent{}
	c.OutlierDetection = &clusterv3.OutlierDetection{
		Consecutive_5Xx:          wrapperspb.UInt32(1),
		EnforcingConsecutive_5Xx: wrapperspb.UInt32(100),
		MaxEjectionPercent:       wrapperspb.UInt32(100),
		Interval:                 durationpb.New(never),
		BaseEjectionTime:         durationpb.New(never),
		MaxEjectionTime:          durationpb.New(never),
	}
	give(r, c, h.stays)
	open(r, "l", adscript.RouteTable("rc", adscript.VirtualHost("a", "c", "*")))
	r.AwaitAck(r.Send(adscript.Push("2", adscript.Assignment("c", h.stays, h.goes))))
	return h
}

// eject calls the endpoint that fails until Envoy says that it has ejected it.
func (h *health) eject() {
	h.t.Helper()
	h.r.Until("it is ejected", func() bool {
		h.r.Get("l", "a.test", "/")
		return strings.Contains(string(h.r.Admin("/clusters")), h.goes+"::health_flags::/failed_outlier_check")
	})
}

func (h *health) push(status corev3.HealthStatus) {
	h.t.Helper()
	a := adscript.Assignment("c", h.stays, h.goes)
	a.GetEndpoints()[0].GetLbEndpoints()[1].HealthStatus = status
	h.r.AwaitAck(h.r.Send(adscript.Push("3", a)))
	require.Regexp(h.t, h.goes+`::health_flags::\S*/failed_eds_health`, string(h.r.Admin("/clusters")))
}

// requireCalled requires that the endpoint goes on getting requests.
func (h *health) requireCalled() {
	h.t.Helper()
	for range 3 {
		h.r.Until("it gets a request", func() bool {
			return h.r.Get("l", "a.test", "/").Status == http.StatusInternalServerError
		})
	}
}

// requireGone requires that the endpoint gets no more requests, from the third on: the worker takes
// a change in the round in which it takes a request, if not before.
func (h *health) requireGone() {
	h.t.Helper()
	for range 2 {
		h.r.Get("l", "a.test", "/")
	}
	for range 20 {
		require.Equal(h.t, ok("stays"), h.r.Get("l", "a.test", "/"))
	}
}
