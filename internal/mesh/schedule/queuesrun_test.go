package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// queuesRun does with queues what a Loop does, and notes it.
type queuesRun struct {
	q          queues
	start      time.Time
	generation uint64
	wrong      map[string]bool // objects that leave an error
	told       int             // how many of them were published
	awaited    []source.Key
	busy       time.Duration // of this process
}

func newQueuesRun(d Debounce, fromNothing bool) *queuesRun {
	r := &queuesRun{q: newQueues(d), start: time.Unix(1_700_000_000, 0), wrong: map[string]bool{}}
	if !fromNothing {
		before := r.start.Add(-time.Hour)
		r.q.sync()
		r.leave(everything, before)
		r.q.pace.progressed(r.generation, r.generation, before)
	}
	return r
}

// line has happen what a line says, and tells what the queues make of it.
func (r *queuesRun) line(t *testing.T, words []string) string {
	now := r.at(t, words[0])
	switch names := words[2:]; words[1] {
	case "change", "remove", "endpoints", "policy", "unprotect", "configmap":
		for _, name := range names {
			r.add(t, words[1], name, now)
		}
	case "delivered":
		r.q.pace.progressed(r.generation, r.generation, now)
		if len(names) == 2 {
			took := r.at(t, names[1]).Sub(r.start)
			switch names[0] {
			case "busy":
				r.busy += took
			case "envoy":
				r.q.steady.proxyBusy(took, now)
			}
		}
		r.q.steady.delivered(now, r.busy)
	case "reached":
		r.q.pace.progressed(r.generation, 0, now)
	case "grace":
		r.q.graceEnds = r.at(t, names[0])
	case "synced":
		r.q.sync()
	case "look":
	default:
		require.Fail(t, "what is "+words[1]+"?")
	}
	var made []string
	d := r.q.next(now)
	if d.drainFirst {
		made = append(made, "drain first")
	}
	for ; d.leave != nothing; d = r.q.next(now) {
		made = append(made, r.leave(d.leave, now))
	}
	if wait := d.recheckAt.Sub(now); wait < idlePeriod {
		made = append(made, fmt.Sprint("look ", float64(d.recheckAt.Sub(r.start).Microseconds())/1000))
	}
	return strings.Join(made, ", ")
}

func (r *queuesRun) at(t *testing.T, ms string) time.Time {
	n, err := strconv.Atoi(ms)
	require.NoError(t, err)
	return r.start.Add(time.Duration(n) * time.Millisecond)
}

// add takes in changes of a name as a script writes it.
func (r *queuesRun) add(t *testing.T, verb, name string, now time.Time) {
	name, many, several := strings.Cut(name, "*")
	if several {
		n, err := strconv.Atoi(many)
		require.NoError(t, err)
		for i := range n {
			r.add(t, verb, fmt.Sprint(name, i), now)
		}
		return
	}
	if verb == "endpoints" {
		namespace, service, _ := strings.Cut(name, "/")
		r.q.add(source.Change{
			Key: source.Key{Kind: kinds.EndpointSlice, Namespace: namespace, Name: service},
			Object: &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: service},
			}},
		}, now)
		return
	}
	plain := strings.TrimRight(name, "!?")
	c := source.Change{Key: source.Key{Kind: kinds.Service, Namespace: "n", Name: plain}}
	switch verb {
	case "change":
		c.Object = &corev1.Service{}
	case "configmap":
		c.Key.Kind, c.Object = kinds.ConfigMap, &corev1.ConfigMap{}
	case "policy":
		c.Key.Kind, c.Object = kinds.AuthorizationPolicy, &securityv1.AuthorizationPolicy{}
	case "unprotect":
		c.Key.Kind = kinds.AuthorizationPolicy
	}
	if delete(r.wrong, plain); strings.HasSuffix(name, "!") {
		r.wrong[plain] = true
	}
	if strings.HasSuffix(name, "?") {
		r.awaited = append(r.awaited, c.Key)
	}
	r.q.add(c, now)
}

// leave has a batch leave, and tells what becomes of it.
func (r *queuesRun) leave(what selection, now time.Time) string {
	b, changes := r.q.take(what, now)
	var names []string
	for _, c := range changes {
		names = append(names, c.Key.Name)
	}
	if len(names) > 5 {
		names = []string{strconv.Itoa(len(names))}
	}
	if !r.q.graceEnds.IsZero() && !now.Before(r.q.graceEnds) {
		r.q.graceEnds, names = time.Time{}, append(names, "lost")
	}
	if len(names) == 0 && r.generation == 0 {
		names = []string{"nothing"}
	}
	awaited := r.awaited
	r.awaited = nil
	verb := "holds "
	if r.q.applied(b, result{newErrors: len(r.wrong) > r.told, awaited: awaited}, now) {
		r.generation++
		r.q.published(b, r.generation, now)
		if b.changes {
			r.q.steady.published(now, r.busy)
		}
		r.told, verb = len(r.wrong), "leaves "
	}
	return strings.TrimSpace(verb + strings.Join(slices.Clip(names), " "))
}
