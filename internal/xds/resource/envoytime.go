package resource

import "time"

// What a response takes of Envoy's main thread, as test/live/envoyfacts measures it ("What a change
// of one entry costs an Envoy", docs/performance.md): so much for any response, for each entry of
// the list that Envoy makes anew, whichever of them changed, and for each entry in the response.
type envoyWork struct {
	response, ofList, sent time.Duration
}

// envoyWorks are the measured times. Those of types that Envoy makes no list of are their sent
// resources alone.
var envoyWorks = [NumTypes]envoyWork{
	Cluster:     {response: 250 * time.Microsecond, sent: 350 * time.Microsecond},
	Endpoint:    {response: 180 * time.Microsecond, sent: 2200 * time.Nanosecond},
	LbEndpoint:  {response: 160 * time.Microsecond, ofList: 1200 * time.Nanosecond, sent: 6 * time.Microsecond},
	Listener:    {response: 250 * time.Microsecond, sent: 450 * time.Microsecond},
	Route:       {response: 220 * time.Microsecond},
	VirtualHost: {response: 200 * time.Microsecond, ofList: 12500 * time.Nanosecond, sent: 10 * time.Microsecond},
	Secret:      {response: 200 * time.Microsecond, sent: 300 * time.Microsecond},
	Filter:      {response: 200 * time.Microsecond, sent: 300 * time.Microsecond},
	Name:        {response: 50 * time.Microsecond, sent: time.Microsecond},
}

// perTableByte is what each byte of a route table that is sent whole takes.
const perTableByte = 53 * time.Nanosecond

// said is what a response says.
type said struct {
	typ     Type
	upserts []*Resource
	removed []string
	list    int // entries of the lists that they are entries of
}

func (s said) envoyTime() time.Duration {
	w := envoyWorks[s.typ]
	t := w.response + time.Duration(s.list)*w.ofList
	switch s.typ {
	case Endpoint:
		for _, r := range s.upserts {
			t += time.Duration(r.Endpoints()) * w.sent
		}
	case Route:
		for _, r := range s.upserts {
			t += time.Duration(r.Size()) * perTableByte
		}
	default:
		t += time.Duration(len(s.upserts)+len(s.removed)) * w.sent
	}
	return t
}

// EnvoyTime returns how long the main thread of an Envoy takes for a response, by its type and
// size: an estimate from measured times. The response brings a client to the state, and has a
// change's upserts and removals if that is not nil; then it costs next to nothing, as the change
// keeps the answer.
func (s State) EnvoyTime(t Type, upserts []*Resource, removed []string, shared *Change) time.Duration {
	of := said{typ: t, upserts: upserts, removed: removed}
	if shared == nil {
		of.list = s.listed(of)
		return of.envoyTime()
	}
	if known := shared.envoyTime.Load(); known != 0 {
		return time.Duration(known)
	}
	if of.list = shared.members; t == VirtualHost {
		of.list = s.listed(of)
	}
	took := of.envoyTime()
	shared.envoyTime.Store(int64(took))
	return took
}

// listed counts the virtual hosts of the tables of those that are said.
func (s State) listed(of said) (n int) {
	if of.typ != VirtualHost {
		return 0
	}
	hosts, table := s.Set(VirtualHost), ""
	note := func(name string) {
		if in, ok := TableOf(name); ok && in != table {
			table, n = in, n+hosts.countUnder(in)
		}
	}
	for _, r := range of.upserts {
		note(r.name)
	}
	if n == 0 {
		for _, name := range of.removed {
			note(name)
		}
	}
	return n
}

// countUnder returns how many virtual hosts a table has, in a set of all tables' virtual hosts.
func (s *Set) countUnder(table string) int {
	n := s.underTable(table)
	if n == nil {
		return 0
	}
	return n.count
}
