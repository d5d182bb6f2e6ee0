package leader

import (
	"context"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Timing says how fast another replica takes over from one that has died.
type Timing struct {
	Lease time.Duration // after which others may take the Lease
	Renew time.Duration // after which a holder that cannot renew it stops; less than Lease
	Retry time.Duration // between two attempts
}

// DefaultTiming is the timing of Kubernetes' own components.
var DefaultTiming = Timing{Lease: 15 * time.Second, Renew: 10 * time.Second, Retry: 2 * time.Second}

// Options say which Lease to campaign for.
type Options struct {
	Leases coordinationv1.LeasesGetter
	// Namespace and Name are those of the Lease; it is created if need be.
	Namespace, Name string
	// Identity differs from that of all other replicas, also of those that had the same name
	// before.
	Identity string
	Timing   Timing
	// Observed is called with the holder of the Lease as far as this replica knows. It may be nil
	// and must not block.
	Observed func(holder string)
	Log      *slog.Logger
}

// Run campaigns until ctx ends, and calls work whenever this replica holds the Lease. The context
// of work ends when the Lease is lost or ctx ends. The Lease is released only after work has
// returned. An error means that the options are invalid.
func Run(ctx context.Context, o Options, work func(ctx context.Context)) error {
	for ctx.Err() == nil {
		if err := campaign(ctx, o, work); err != nil {
			return err
		}
	}
	return nil
}

// term is one campaign from its start to its end, won or not.
type term struct {
	mu     sync.Mutex
	ended  bool
	worked chan struct{} // closed when the work has returned; nil if it was not begun
}

func campaign(ctx context.Context, o Options, work func(context.Context)) error {
	campaigning, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	t := &term{}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
			Client:     o.Leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
		},
		LeaseDuration:   o.Timing.Lease,
		RenewDeadline:   o.Timing.Renew,
		RetryPeriod:     o.Timing.Retry,
		ReleaseOnCancel: true,
		Name:            o.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				defer resign()
				working, stop := context.WithCancel(leading)
				defer stop()
				defer context.AfterFunc(ctx, stop)()
				t.work(func() {
					o.Log.Info("this replica leads", "lease", o.Namespace+"/"+o.Name, "identity", o.Identity)
					work(working)
				})
			},
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if o.Observed != nil {
					o.Observed(holder)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		if !elector.IsLeader() { // else the end of the work gives the Lease up
			resign()
		}
	})()
	elector.Run(campaigning)
	t.end()
	if ctx.Err() == nil && o.Observed != nil {
		o.Observed("")
	}
	return nil
}

// work runs f unless the term has ended.
func (t *term) work(f func()) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	worked := make(chan struct{})
	t.worked = worked
	t.mu.Unlock()
	defer close(worked)
	f()
}

// end waits for the work if it has begun, and prevents it from beginning later.
func (t *term) end() {
	t.mu.Lock()
	t.ended = true
	worked := t.worked
	t.mu.Unlock()
	if worked != nil {
		<-worked
	}
}
