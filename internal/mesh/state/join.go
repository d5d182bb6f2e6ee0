package state

import (
	"cmp"
	"iter"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// joinEndpoints updates the endpoint sets for the slices, entries and workloads that this batch
// changed. The cost is that of the changed contributors.
func (b *batch) joinEndpoints() {
	if !b.endpointsMayChange() {
		return
	}
	j := &joiner{
		b: b, touched: map[serviceID]*endpointEdit{}, before: b.from, after: b.next,
	}
	mtls := b.mtlsChanged()
	again := append(b.movedWorkloads(), b.retunedWorkloads(mtls)...)
	changed := b.changedPods(again)
	for _, s := range b.slicesToJoin(again) {
		s = b.changedHosts(s, changed)
		j.swap(b.sliceContribution(s.Old, j.before, -1), b.sliceContribution(s.New, j.after, 1))
	}
	for _, s := range b.delta.Services {
		j.swap(entryContribution(s.Old, j.before), entryContribution(s.New, j.after))
		j.swapSelected(s)
	}
	for _, w := range b.delta.Workloads {
		j.swapWorkload(w)
	}
	for _, w := range again {
		j.swapWorkload(Pair[model.Workload]{Old: w, New: w})
	}
	j.joinEntries()
	j.joinRetuned(mtls)
	j.finish()
	j.finishAccounts()
	b.indexPods()
}

// endpointsMayChange reports whether the batch has changed something that endpoints are made of.
// What is called in mutual TLS is a part of them.
func (b *batch) endpointsMayChange() bool {
	d := b.delta
	return d.Mesh || len(b.dirtySlices) > 0 || len(d.Services)+len(d.Workloads)+len(d.WorkloadEntries)+
		len(d.Nodes)+len(d.PeerAuthentications) > 0
}

// movedWorkloads returns unchanged workloads on nodes that changed.
func (b *batch) movedWorkloads() []*model.Workload {
	var moved []*model.Workload
	for _, n := range b.delta.Nodes {
		for w := range b.next.WorkloadsOn(n.Either().Name) {
			if was := b.from.Workload(w.Namespace, w.Name); was == w {
				moved = append(moved, w)
			}
		}
	}
	return moved
}

// slicesToJoin are the slices that changed, and the unchanged ones with a pod that changed or is
// joined again, or on a node that changed.
func (b *batch) slicesToJoin(again []*model.Workload) []Pair[model.EndpointSlice] {
	dirty := slices.Clone(b.dirtySlices)
	seen := map[string]bool{}
	for _, s := range dirty {
		for _, v := range []*model.EndpointSlice{s.Old, s.New} {
			if v != nil {
				seen[v.Namespace+"/"+v.Name] = true
			}
		}
	}
	add := func(list iter.Seq[*model.EndpointSlice]) {
		for s := range list {
			if !seen[s.Namespace+"/"+s.Name] {
				seen[s.Namespace+"/"+s.Name] = true
				dirty = append(dirty, Pair[model.EndpointSlice]{Old: s, New: s})
			}
		}
	}
	byPod, byNode := b.next.slices.by[slicesByPod], b.next.slices.by[slicesByNode]
	for _, w := range b.delta.Workloads {
		add(byPod.under(join(w.Either().Namespace, w.Either().Name)))
	}
	for _, w := range again {
		add(byPod.under(join(w.Namespace, w.Name)))
	}
	for _, n := range b.delta.Nodes {
		add(byNode.under(join(n.Either().Name)))
	}
	return dirty
}

// changedPods returns the pods whose workloads changed or are joined again.
func (b *batch) changedPods(again []*model.Workload) map[source.Key]bool {
	if len(b.delta.Workloads)+len(again) == 0 {
		return nil
	}
	changed := make(map[source.Key]bool, len(b.delta.Workloads)+len(again))
	for _, w := range b.delta.Workloads {
		changed[w.Either().Key()] = true
	}
	for _, w := range again {
		changed[w.Key()] = true
	}
	return changed
}

// changedHosts drops the hosts of a slice that contribute the same before and after: in a large
// slice, most. It keeps the whole slice if the mesh configuration, a node, the service or the ports
// changed.
func (b *batch) changedHosts(s Pair[model.EndpointSlice], changed map[source.Key]bool) Pair[model.EndpointSlice] {
	old, now := s.Old, s.New
	if old == nil || now == nil || old.Service != now.Service || !slices.Equal(old.Ports, now.Ports) ||
		b.delta.Mesh || len(b.delta.Nodes) > 0 {
		return s
	}
	had, has := byAddress(old.Hosts), byAddress(now.Hosts)
	gives := func(h model.SliceHost) bool {
		return had[h.Address] != h || has[h.Address] != h || changed[source.Key{
			Kind: kinds.Pod, Namespace: now.Namespace, Name: h.Pod,
		}]
	}
	return Pair[model.EndpointSlice]{Old: withHosts(old, gives), New: withHosts(now, gives)}
}

// byAddress returns hosts by address. An address with several hosts gets a host that equals no
// other, because the first of them counts.
func byAddress(hosts []model.SliceHost) map[string]model.SliceHost {
	found := make(map[string]model.SliceHost, len(hosts))
	for _, h := range hosts {
		if _, several := found[h.Address]; several {
			h = model.SliceHost{Address: h.Address, Pod: severalPods}
		}
		found[h.Address] = h
	}
	return found
}

// severalPods is no valid pod name.
const severalPods = "/"

// withHosts returns a copy of a slice with some of its hosts.
func withHosts(s *model.EndpointSlice, which func(model.SliceHost) bool) *model.EndpointSlice {
	some := *s
	some.Hosts = nil
	for _, h := range s.Hosts {
		if which(h) {
			some.Hosts = append(some.Hosts, h)
		}
	}
	return &some
}

func (b *batch) sliceContribution(s *model.EndpointSlice, at *Snapshot, sign int) *contribution {
	if s == nil {
		return nil
	}
	c, pending := b.fromSlice(s, at)
	b.next.pendingHosts += sign * pending
	b.next.unreadyHosts += sign * unreadyIn(s)
	return c
}

// unreadyIn counts the endpoints of a slice that are not ready.
func unreadyIn(s *model.EndpointSlice) int {
	n := len(s.Unready)
	for i := range s.Hosts {
		if s.Hosts[i].Health == model.Unhealthy {
			n++
		}
	}
	return n
}

func entryContribution(svc *model.Service, at *Snapshot) *contribution {
	if svc == nil || len(svc.Endpoints) == 0 {
		return nil
	}
	return fromEntry(svc, at)
}

// joiner collects the endpoint edits of a batch by service.
type joiner struct {
	b             *batch
	before, after *Snapshot
	touched       map[serviceID]*endpointEdit
	order         []serviceID
	accounts      map[serviceID]map[string]int // how much more often each is named; nil for nothing
}

type endpointEdit struct {
	from   *EndpointSet
	claims index[model.Endpoint]
	ids    []EndpointID
	counts bool // the new set has counts of its own
}

// countPlain counts one more endpoint of a port that does not take TLS, or one less.
func (e *endpointEdit) countPlain(to *EndpointSet, port string, more bool) {
	if !e.counts {
		to.plain, e.counts = slices.Clone(to.plain), true
	}
	i, known := slices.BinarySearchFunc(to.plain, port, func(c portCount, name string) int {
		return cmp.Compare(c.name, name)
	})
	switch {
	case !known:
		to.plain = slices.Insert(to.plain, i, portCount{port, 1})
	case more:
		to.plain[i].count++
	case to.plain[i].count == 1:
		to.plain = slices.Delete(to.plain, i, i+1)
	default:
		to.plain[i].count--
	}
}

// swapSelected replaces what the workloads of a namespace contribute to a ServiceEntry that selects
// them. It reads all these workloads, so it skips an entry whose selector and ports did not change.
func (j *joiner) swapSelected(s Pair[model.Service]) {
	if s.Old != nil && s.New != nil && selectsEndpoints(s.Old) && selectsEndpoints(s.New) &&
		s.Old.Selector == s.New.Selector && slices.Equal(s.Old.Ports, s.New.Ports) {
		return
	}
	j.eachSelected(s.Old, func(c *contribution) { j.swap(c, nil) })
	j.eachSelected(s.New, func(c *contribution) { j.swap(nil, c) })
}

// eachSelected calls change with what each workload contributed to a ServiceEntry before the batch.
// Changed workloads follow in swapWorkload.
func (j *joiner) eachSelected(svc *model.Service, change func(*contribution)) {
	if svc == nil || !selectsEndpoints(svc) {
		return
	}
	for w := range podsIn(j.before.workloads, svc.Namespace) {
		change(fromSelector(svc, w, j.before))
	}
}

// swapWorkload replaces what one workload contributes to the ServiceEntries that select it now.
func (j *joiner) swapWorkload(w Pair[model.Workload]) {
	j.eachSelecting(w.Old, j.before, func(c *contribution) { j.swap(c, nil) })
	j.eachSelecting(w.New, j.after, func(c *contribution) { j.swap(nil, c) })
}

// eachSelecting calls change with what a workload contributes to each ServiceEntry that selects it.
func (j *joiner) eachSelecting(w *model.Workload, at *Snapshot, change func(*contribution)) {
	if w == nil {
		return
	}
	for svc := range j.after.ServicesSelecting(w.Namespace, w.Labels) {
		if selectsEndpoints(svc) {
			change(fromSelector(svc, w, at))
		}
	}
}

// swap replaces what a contributor says. nil says nothing.
func (j *joiner) swap(old, now *contribution) {
	if old != nil {
		j.countAccounts(old, -1)
		e := j.edit(old)
		for i := range old.endpoints {
			id := idOf(&old.endpoints[i])
			e.claims.drop(j.b.tx, join(string(id), old.contributor))
			e.ids = append(e.ids, id)
		}
	}
	if now != nil {
		j.countAccounts(now, 1)
		e := j.edit(now)
		for i := range slices.Backward(now.endpoints) { // of one that is listed twice, the first counts
			id := idOf(&now.endpoints[i])
			e.claims.put(j.b.tx, join(string(id), now.contributor), now.endpoints[i])
			e.ids = append(e.ids, id)
		}
	}
}

func (j *joiner) edit(c *contribution) *endpointEdit {
	id := c.service
	if e := j.touched[id]; e != nil {
		return e
	}
	from, ok := j.b.from.endpoints.get(id.key())
	e := &endpointEdit{from: from}
	if ok {
		e.claims = from.claims
	} else {
		e.from, e.claims = noEndpoints, newIndex[model.Endpoint](j.b.from.lookups)
	}
	j.touched[id] = e
	j.order = append(j.order, id)
	return e
}

func (j *joiner) finish() {
	for _, id := range j.order {
		e := j.touched[id]
		to := &EndpointSet{claims: e.claims, plain: e.from.plain}
		slices.Sort(e.ids)
		changed := slices.DeleteFunc(slices.Compact(e.ids), func(id EndpointID) bool {
			before, had := e.from.Get(id)
			after, has := to.Get(id)
			if was, is := had && !before.TLS, has && !after.TLS; was != is {
				e.countPlain(to, cmp.Or(before.PortName, after.PortName), is)
			}
			return had == has && before == after
		})
		if to.IsEmpty() {
			j.b.next.endpoints.drop(j.b.tx, id.key())
		} else {
			j.b.next.endpoints.put(j.b.tx, id.key(), to)
		}
		if len(changed) > 0 {
			change := EndpointChange{
				Host:      id.host,
				Namespace: id.namespace,
				Entry:     id.entry,
				From:      e.from,
				To:        to,
				IDs:       changed,
			}
			j.b.delta.Endpoints = append(j.b.delta.Endpoints, change)
		}
	}
}
