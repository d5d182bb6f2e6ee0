package schedule

import (
	"context"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Foreseen is what changes would make of the mesh. Nothing of it has happened.
type Foreseen struct {
	// Delta is from what is published to what would be. It is empty if the changes make no
	// difference.
	Delta *state.Delta
	// New are the objects that there are not yet.
	New map[source.Key]bool
	// Appeared and Mended are the problems of objects, alone and with each other, that would come
	// and go.
	Appeared, Mended []source.Problem
}

// Foresee converts, applies and checks changes as if they were delivered now, and calls f with what
// they would make of the mesh. An object that is there keeps its age and what the API server gave
// it, and born is when a new one is created; zero where objects have no age, as in a directory. f
// runs in the goroutine of the loop, which waits for it.
func (l *Loop) Foresee(ctx context.Context, changes []source.Change, born time.Time, f func(Foreseen)) error {
	return l.Examine(ctx, func(w *state.Writer) {
		seen := Foreseen{New: map[source.Key]bool{}}
		for _, c := range changes {
			seen.New[c.Key] = asStored(w.Objects(c.Key), c, born)
		}
		problems := l.o.Problems.Fork(func(appeared, mended []source.Problem) {
			seen.Appeared, seen.Mended = appeared, mended
		})
		if ctx.Err() != nil {
			return
		}
		converter := l.convert.fork(func(c source.Change, r convert.Result) {
			problems.NoteOrigin(c)
			problems.SetConversion(c.Key, r.Problems)
		})
		updates := converter.convert(changes)
		if ctx.Err() != nil {
			return
		}
		next, delta := w.Fork().Apply(updates)
		l.checker.Fork(problems).Check(next, delta)
		problems.Publish()
		seen.Delta = delta
		if ctx.Err() == nil {
			f(seen)
		}
	})
}

// asStored gives an object what the API server would: of one that is there the age, and what a
// manifest leaves to the API server and to controllers. It reports whether the object is new.
func asStored(was []model.Object, c source.Change, born time.Time) (isNew bool) {
	switch {
	case c.Object == nil:
		return false
	case len(was) == 0:
		if !born.IsZero() {
			c.Object.SetCreationTimestamp(metav1.NewTime(born))
		}
		return true
	}
	if m := model.MetaOf(was[0]); m != nil && m.Created != 0 {
		c.Object.SetCreationTimestamp(metav1.Unix(m.Created, 0))
		c.Object.SetUID(types.UID(m.UID))
	}
	if service, ok := c.Object.(*corev1.Service); ok {
		if live, ok := was[0].(*model.Service); ok {
			keepAssigned(&service.Spec, live)
			keepBalancers(service, live)
		}
	}
	return false
}

// keepAssigned gives a Service the addresses and families that it was assigned, if it asks for
// none.
func keepAssigned(spec *corev1.ServiceSpec, live *model.Service) {
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	if spec.ClusterIP == "" && len(spec.ClusterIPs) == 0 {
		for _, address := range live.Addresses {
			if !slices.Contains(live.ExternalIPs, address) {
				spec.ClusterIPs = append(spec.ClusterIPs, address)
			}
		}
	}
	if len(spec.IPFamilies) > 0 || live.Family == model.AnyFamily {
		return
	}
	spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	other := corev1.IPv6Protocol
	if live.Family == model.IPv6 {
		spec.IPFamilies[0], other = other, spec.IPFamilies[0]
	}
	if live.TwoFamilies {
		spec.IPFamilies = append(spec.IPFamilies, other)
	}
}

// keepBalancers gives a Service the load balancer that it has.
func keepBalancers(service *corev1.Service, live *model.Service) {
	if len(service.Status.LoadBalancer.Ingress) > 0 {
		return
	}
	for _, at := range live.Balancers {
		in := corev1.LoadBalancerIngress{Hostname: at}
		if _, err := netip.ParseAddr(at); err == nil {
			in = corev1.LoadBalancerIngress{IP: at}
		}
		service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress, in)
	}
}
