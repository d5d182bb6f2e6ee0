package status

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// gatewayPause is how long a changed Gateway waits before its status is written. While thousands of
// routes attach, their number changes all the time; one write stands for what came meanwhile.
const gatewayPause = 500 * time.Millisecond

// AttachmentOptions are what an AttachmentWriter needs.
type AttachmentOptions struct {
	Attachments *Attachments
	API         API
	Metrics     *observe.Metrics
	Log         *slog.Logger
	Now         func() time.Time
}

// AttachmentWriter writes the statuses of the Gateway API until they agree with Attachments.
type AttachmentWriter struct {
	AttachmentOptions
	*statusQueue

	known *standing[writtenStatus]
	// orphans are routes that have ceased to be Lateen's while no replica led.
	orphans []source.Key
}

// writtenStatus identifies what was written.
type writtenStatus struct {
	generation int64
	print      [16]byte
	undeployed model.Condition
}

// NewAttachmentWriter returns an AttachmentWriter for one term as the leader.
func NewAttachmentWriter(o AttachmentOptions) *AttachmentWriter {
	return &AttachmentWriter{AttachmentOptions: o, known: newStanding[writtenStatus]()}
}

// Run writes until ctx ends.
func (w *AttachmentWriter) Run(ctx context.Context) {
	select { // before the first state is compiled, nothing is known to be right
	case <-w.Attachments.firstBatch:
	case <-ctx.Done():
		return
	}
	w.statusQueue = newStatusQueue(ctx, newParentsFirst(), w.Metrics, w.Log)
	keys := w.Attachments.listen(w.add) // what changes while the statuses are read is written after
	defer w.Attachments.listen(nil)
	if !w.readExisting(ctx) {
		return
	}
	for _, k := range slices.Concat(keys, w.orphans) {
		w.queue.Add(k)
	}
	w.runWorkers(ctx, func(k source.Key) { w.handle(ctx, k) })
}

func (w *AttachmentWriter) add(k source.Key) {
	if k.Kind == kinds.KubernetesGateway || k.Kind == kinds.ListenerSet {
		w.queue.AddAfter(k, gatewayPause)
		return
	}
	w.queue.Add(k)
}

// readExisting lists the statuses, so that one that is right is not written again. A kind that is
// not served has none.
func (w *AttachmentWriter) readExisting(ctx context.Context) bool {
	orphaned := map[source.Key][]source.Key{}
	for _, d := range kinds.WithStatus(kinds.Attachments) {
		list := func() error {
			err := listOf(ctx, w.API, d.Kind, func(l *liveAttachment) {
				k := source.Key{Kind: d.Kind, Namespace: l.Metadata.Namespace, Name: l.Metadata.Name}
				o, known := w.Attachments.get(k)
				if !known {
					return
				}
				if o.status == nil {
					for _, parent := range l.ownParents() {
						orphaned[parent] = append(orphaned[parent], k)
					}
					return
				}
				_, same, err := l.with(o, w.Now())
				switch {
				case err == nil && same:
					w.note(k, o)
				case len(l.ownParents()) > 0: // something of Lateen's stands, and is to go or to change
					w.known.remember(k, writtenStatus{})
				}
			})
			if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
				return nil // the definitions are installed by users
			}
			return err
		}
		if !w.retryList(ctx, d.Kind, list) {
			return false
		}
	}
	return w.removeOrphans(ctx, orphaned)
}

// handle writes the status of one object if it differs, and schedules a retry if that fails.
func (w *AttachmentWriter) handle(ctx context.Context, k source.Key) {
	o, exists := w.Attachments.get(k)
	if !exists {
		w.known.forget(k)
		w.queue.Forget(k)
		return
	}
	if known, told := w.known.lookup(k); told && known == identify(o) || !told && o.status == nil {
		w.queue.Forget(k)
		return
	}
	if result, err := w.write(ctx, k, o); ctx.Err() == nil {
		w.finish(k, result, err)
	}
}

func (w *AttachmentWriter) write(ctx context.Context, k source.Key, o attached) (result string, err error) {
	present := &liveAttachment{}
	err = w.API.read(ctx, k, present)
	if apierrors.IsNotFound(err) {
		w.known.forget(k)
		return gone, nil
	}
	if err != nil {
		return failed, err
	}
	status, same, err := present.with(o, w.Now())
	if err != nil {
		return failed, err
	}
	if same {
		w.note(k, o)
		return unchanged, nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": present.Metadata.ResourceVersion}, "status": status,
	})
	if err != nil {
		return failed, err
	}
	result, err = outcome(w.API.patch(ctx, k, body))
	switch result {
	case written:
		w.note(k, o)
	case gone:
		w.known.forget(k)
	}
	return result, err
}

func identify(o attached) writtenStatus {
	return writtenStatus{
		generation: o.generation, print: model.Fingerprint(o.status), undeployed: o.undeployed,
	}
}

// note notes what stands in the API server. No status is nothing of Lateen's.
func (w *AttachmentWriter) note(k source.Key, o attached) {
	if o.status == nil {
		w.known.forget(k)
		return
	}
	w.known.remember(k, identify(o))
}
