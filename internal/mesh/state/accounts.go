package state

import (
	"maps"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// accounts are the service accounts of those who serve a service, with how often contributors name each. They never change.
type accounts struct {
	names  []string // sorted
	counts []int    // by name, positive
}

var noAccounts = &accounts{}

// AccountsChange tells that the set of service accounts of a service is another one. A change of who runs as them is none.
type AccountsChange struct {
	Host      model.Host
	Namespace string
	Entry     string   // the name of the ServiceEntry; empty for a Service of Kubernetes
	From, To  []string // sorted
}

// Accounts are the service accounts, in the service's own namespace, of those who serve a service: of its endpoints, and of pods that
// are about to be some, or were. They are sorted, and not to be changed.
func (w *Snapshot) Accounts(s *model.Service) []string {
	set, _ := w.accounts.get(serviceIDOf(s).key())
	if set == nil {
		return nil
	}
	return set.names
}

// with is the set after contributors named accounts more or less often.
func (a *accounts) with(more map[string]int) *accounts {
	counts := make(map[string]int, len(a.names)+len(more))
	for i, name := range a.names {
		counts[name] = a.counts[i]
	}
	for name, n := range more {
		if counts[name] += n; counts[name] == 0 {
			delete(counts, name)
		}
	}
	to := &accounts{names: slices.Sorted(maps.Keys(counts))}
	if slices.Equal(to.names, a.names) {
		to.names = a.names
	}
	for _, name := range to.names {
		to.counts = append(to.counts, counts[name])
	}
	return to
}

// countAccounts notes what a contributor names no longer, or now.
func (j *joiner) countAccounts(c *contribution, sign int) {
	if len(c.accounts) == 0 {
		return
	}
	more := j.accounts[c.service]
	if more == nil {
		more = map[string]int{}
		j.accounts[c.service] = more
	}
	for _, name := range c.accounts {
		if more[name] += sign; more[name] == 0 {
			delete(more, name)
		}
	}
}

// finishAccounts brings the accounts up to date. It costs the services of which some are named more or less often, and what there are
// of each.
func (j *joiner) finishAccounts() {
	for _, id := range slices.SortedFunc(maps.Keys(j.accounts), compareServiceIDs) {
		if len(j.accounts[id]) == 0 {
			continue
		}
		from, known := j.b.from.accounts.get(id.key())
		if !known {
			from = noAccounts
		}
		to := from.with(j.accounts[id])
		if len(to.names) == 0 {
			j.b.next.accounts.drop(j.b.tx, id.key())
		} else {
			j.b.next.accounts.put(j.b.tx, id.key(), to)
		}
		if !slices.Equal(from.names, to.names) {
			change := AccountsChange{Host: id.host, Namespace: id.namespace, Entry: id.entry, From: from.names, To: to.names}
			j.b.delta.Accounts = append(j.b.delta.Accounts, change)
		}
	}
}

func compareServiceIDs(a, b serviceID) int { return strings.Compare(string(a.key()), string(b.key())) }

// thenAccounts has one change for each service, of sets that are not again what they were.
func thenAccounts(first, second []AccountsChange) []AccountsChange {
	of := func(c AccountsChange) serviceID { return serviceID{c.Host, c.Namespace, c.Entry} }
	both, at := slices.Clone(first), make(map[serviceID]int, len(first))
	for i, c := range first {
		at[of(c)] = i
	}
	for _, c := range second {
		if i, known := at[of(c)]; known {
			both[i].To = c.To
		} else {
			both = append(both, c)
		}
	}
	return slices.DeleteFunc(both, func(c AccountsChange) bool { return slices.Equal(c.From, c.To) })
}
