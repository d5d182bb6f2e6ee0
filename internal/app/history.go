package app

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/lateen-mesh/lateen/internal/admin/history"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// past is what the control plane remembers of its generations.
type past struct {
	store    *history.Store
	recorder *history.Recorder
	// converted is what it took to convert the batch that is compiled. The loop's goroutine has it.
	converted time.Duration
}

// diskShare is how much more may be on disk than in memory: what is read at the start fills that.
const diskShare = 2

// newPast returns a past as the settings say.
func (p *Pipeline) newPast() past {
	c := p.o.Config
	o := history.Options{
		Store: history.NewStore(c.HistoryBytes), Dropped: p.metrics.Drops.WithLabelValues("history").Inc,
	}
	failed, often := p.metrics.Drops.WithLabelValues("history_disk"), rate.Sometimes{First: 3, Interval: time.Minute}
	o.Failed = func(err error) {
		failed.Inc()
		often.Do(func() { p.o.Log.Warn("the history on disk is not whole", "directory", c.HistoryDir, "error", err) })
	}
	if c.HistoryDir != "" && c.HistoryBytes > 0 {
		disk, err := history.NewDisk(c.HistoryDir, diskShare*int64(c.HistoryBytes))
		if err != nil {
			o.Failed(err)
		}
		o.Disk = disk
	}
	return past{store: o.Store, recorder: history.NewRecorder(o)}
}

// batched notes what a batch took before it is compiled. The loop's goroutine calls it.
func (p *Pipeline) batched(b schedule.BatchStats) {
	p.meters.debounced(b)
	p.past.converted = b.Took
	p.applied.Store(b.Snapshot)
}

// arrived tells of each change as it comes.
func (p *Pipeline) arrived(c source.Change) {
	p.meters.event(c)
	p.past.recorder.Arrived(c)
}

// remember reports a generation.
func (p *Pipeline) remember(g *generation) {
	of := history.Published{
		Generation: g.snapshot.Generation, At: time.Now(), Changed: g.delta.Changed,
		Appeared: g.step.Appeared, Mended: g.step.Fixed, States: g.step.Changed,
		LastClass: g.step.LastClass, Took: p.past.converted + time.Since(g.start),
	}
	for _, m := range g.step.Moved {
		name, namespace := m.Member.Name()
		of.Moved = append(of.Moved, history.Move{
			Proxy: name + "." + namespace, From: m.From, To: m.Class, Was: m.Was, State: m.State,
		})
	}
	p.past.recorder.Publish(of)
}

// settled reports what became of a generation.
func (p *Pipeline) settled(r fanout.Record) {
	after := func(t time.Time) float64 {
		if t.IsZero() || r.Observed.IsZero() {
			return 0
		}
		return t.Sub(r.Observed).Seconds()
	}
	all := r.Answered
	if r.Waiting > 0 {
		all = time.Time{}
	}
	p.past.recorder.Settle(history.Settled{Generation: r.Generation, Delivery: page.Delivery{
		Proxies: r.Proxies, Refused: r.Refused, Left: r.Left, Waiting: r.Waiting, Bytes: r.Bytes,
		Half: after(r.Half), Most: after(r.Most), All: after(all),
	}})
}
