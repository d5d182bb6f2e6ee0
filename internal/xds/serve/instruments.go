package serve

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// instruments are the metrics of streams with their labels resolved, so that a send looks nothing
// up.
type instruments struct {
	xds   observe.XDS
	push  observe.Push
	types [resource.NumTypes + 1]typeInstruments // the last one is for all types that are not served

	versions   versionLabels
	receiveMax atomic.Int64
}

type typeInstruments struct {
	pushes, sendErrors, rejects prometheus.Counter
	resources, removed          prometheus.Counter
	pushTime, size              prometheus.Observer
}

func newInstruments(m *observe.Metrics) *instruments {
	in := &instruments{xds: m.XDS, push: m.Push}
	for i := range in.types {
		name := shortName(resource.Type(i))
		in.types[i] = typeInstruments{
			pushes:     m.XDS.Pushes.WithLabelValues(name),
			sendErrors: m.XDS.Pushes.WithLabelValues(name + "_senderr"),
			rejects:    m.XDS.Rejects.WithLabelValues(name),
			resources:  m.XDS.Resources.WithLabelValues(name, "sent"),
			removed:    m.XDS.Resources.WithLabelValues(name, "removed"),
			pushTime:   m.XDS.PushTime.WithLabelValues(name),
			size:       m.XDS.ConfigSize.WithLabelValues(name),
		}
	}
	return in
}

func shortName(t resource.Type) string {
	if t >= resource.NumTypes {
		return "unknown"
	}
	return t.String()
}

func (in *instruments) sent(r *session.Response, size int, took time.Duration) {
	t := &in.types[responseType(r)]
	t.pushes.Inc()
	t.resources.Add(float64(len(r.Upserts)))
	t.removed.Add(float64(len(r.Removed)))
	t.pushTime.Observe(took.Seconds())
	t.size.Observe(float64(size))
}

func (in *instruments) sendFailed(r *session.Response) { in.types[responseType(r)].sendErrors.Inc() }

func responseType(r *session.Response) resource.Type {
	if r.Unknown != "" {
		return resource.NumTypes
	}
	return r.Type
}

func requestType(r *request) resource.Type {
	t, ok := resource.TypeByURL(r.TypeURL)
	if !ok {
		return resource.NumTypes
	}
	return t
}

// typeSet is a set of types, one bit for each. All types that are not served share one.
type typeSet uint16

// add adds a type and reports whether the set did not have it.
func (s *typeSet) add(t resource.Type) bool {
	before := *s
	*s |= 1 << t
	return *s != before
}

func (in *instruments) received(size int) {
	for {
		known := in.receiveMax.Load()
		if int64(size) <= known {
			return
		}
		if in.receiveMax.CompareAndSwap(known, int64(size)) {
			in.xds.ReceiveMax.Set(float64(size))
			return
		}
	}
}

func (in *instruments) refused(t resource.Type, node *Node, nack *session.Nack) {
	in.types[t].rejects.Inc()
	if perNode, ok := in.xds.Refusals[shortName(t)]; ok {
		perNode.WithLabelValues(nodeLabel(node), codeLabel(codes.Code(nack.Code))).Inc()
	}
}

// forget removes the series of a node that has left.
func (in *instruments) forget(node *Node) {
	for _, perNode := range in.xds.Refusals {
		perNode.DeletePartialMatch(prometheus.Labels{"node": nodeLabel(node)})
	}
}

// connected returns the gauge that counts the proxies of a node's version.
func (in *instruments) connected(node *Node) prometheus.Gauge {
	return in.xds.Connected.WithLabelValues(in.versions.label(node.Metadata.IstioVersion))
}
