package leader

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// leases is an API server with one Lease.
type leases struct {
	typedv1.LeaseInterface // the rest is not called
	mu                     sync.Mutex
	lease                  *coordinationv1.Lease
	version                int
	down                   atomic.Bool
}

func (l *leases) Leases(string) typedv1.LeaseInterface { return l }

var resource = schema.GroupResource{Resource: "leases"}

func (l *leases) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down.Load() {
		return nil, apierrors.NewServiceUnavailable("down")
	}
	if l.lease == nil {
		return nil, apierrors.NewNotFound(resource, "x")
	}
	return l.lease.DeepCopy(), nil
}

func (l *leases) Create(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	return l.Update(ctx, lease, metav1.UpdateOptions{})
}

func (l *leases) Update(
	_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down.Load() {
		return nil, apierrors.NewServiceUnavailable("down")
	}
	if l.lease != nil && l.lease.ResourceVersion != lease.ResourceVersion {
		return nil, apierrors.NewConflict(resource, "x", nil)
	}
	l.version++
	l.lease = lease.DeepCopy()
	l.lease.ResourceVersion = fmt.Sprint(l.version)
	return l.lease.DeepCopy(), nil
}

func (l *leases) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease == nil || l.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.lease.Spec.HolderIdentity
}

// candidate campaigns until it is stopped.
type candidate struct {
	working chan struct{} // gets one for each time it leads
	ended   chan struct{} // and when that ends
	stop    func()
}

func campaignFor(t *testing.T, l *leases, name string, timing Timing) *candidate {
	c := &candidate{working: make(chan struct{}, 10), ended: make(chan struct{}, 10)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{
			Leases:    l,
			Name:      "x",
			Namespace: "y",
			Identity:  name,
			Timing:    timing,
			Log:       slog.New(slog.DiscardHandler),
		},
			func(ctx context.Context) {
				c.working <- struct{}{}
				<-ctx.Done()
				if l.holder() != name && !l.down.Load() {
					t.Error("the Lease is given up before the work has ended")
				}
				c.ended <- struct{}{}
			})
	}()
	c.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(c.stop)
	return c
}

var quick = Timing{Lease: 3 * time.Second, Renew: 2 * time.Second, Retry: 20 * time.Millisecond}

func TestOneWorksAndTheNextTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leases{}
		first := campaignFor(t, l, "first", quick)
		<-first.working
		second := campaignFor(t, l, "second", quick)
		require.Equal(t, "first", l.holder())
		require.Empty(t, second.working)
		first.stop()
		<-first.ended
		<-second.working
		second.stop()
		require.Empty(t, l.holder(), "in good order, the Lease is given up")
	})
}

func TestLosingTheLeaseStopsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leases{}
		c := campaignFor(t, l, "one", quick)
		<-c.working
		l.down.Store(true)
		<-c.ended
		l.down.Store(false)
		<-c.working
	})
}

func TestStopWithoutLeadingReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &leases{}
		l.down.Store(true)
		c := campaignFor(t, l, "one", quick)
		c.stop()
		require.Empty(t, c.working)
	})
}
