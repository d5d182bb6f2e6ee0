package state

import (
	"maps"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// accounts are the service accounts that run a service, each with the number of contributors that
// name it. They never change.
type accounts struct {
	names  []string // sorted
	counts []int    // by name, positive
}

var noAccounts = &accounts{}

// AccountsChange is a change of the set of service accounts of a service. It does not occur when
// only the number of their workloads changes.
type AccountsChange struct {
	Host      model.Host
	Namespace string
	Entry     string   // the name of the ServiceEntry; empty for a Service of Kubernetes
	From, To  []string // sorted
}

// Accounts returns the service accounts, in the service's own namespace, of its endpoints and of
// its pods that are not ready. The list is sorted and must not be changed.
func (s *Snapshot) Accounts(svc *model.Service) []string {
	set, _ := s.accounts.get(serviceIDOf(svc).key())
	if set == nil {
		return nil
	}
	return set.names
}

// with returns the set after contributors named accounts more or less often.
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

// countAccounts adds sign to the count of each account that a contributor names.
func (j *joiner) countAccounts(c *contribution, sign int) {
	if len(c.accounts) == 0 {
		return
	}
	if j.accounts == nil {
		j.accounts = map[serviceID]map[string]int{}
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

// finishAccounts updates the accounts of the services whose counts changed. The cost is the
// accounts of these services.
func (j *joiner) finishAccounts() {
	if len(j.accounts) == 0 {
		return // without the lists that order them
	}
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
			change := AccountsChange{
				Host:      id.host,
				Namespace: id.namespace,
				Entry:     id.entry,
				From:      from.names,
				To:        to.names,
			}
			j.b.delta.Accounts = append(j.b.delta.Accounts, change)
		}
	}
}

func compareServiceIDs(a, b serviceID) int { return strings.Compare(string(a.key()), string(b.key())) }

// composeAccounts returns one change for each service, without sets that are back at what they
// were.
func composeAccounts(first, second []AccountsChange) []AccountsChange {
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
