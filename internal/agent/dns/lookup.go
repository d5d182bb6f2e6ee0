package dns

import "strings"

// names is how callers of one Pod say names.
type names struct {
	namespace string // of the Pod
	domain    string // of Services, as "svc.cluster.local"; "" if there is none
	search    string // the first search domain of resolv.conf, "" if there is none
}

// found is what a question leads to.
type found struct {
	*record
	// alias is the name that the question stands for, where that is another: the answer says so by
	// a CNAME. It is "" for most.
	alias string
}

// lookup finds a name, in lower case and without a dot at its end. It returns false for one that
// the table does not know: other resolvers may.
func (t *Table) lookup(name string, by *names) (found, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if r := t.exact(name, by); r != nil {
		return found{record: r}, true
	}
	// Resolvers try a name with each search domain behind it before they try the name itself. The
	// answer to the first of these questions ends the search.
	base, expanded := strings.CutSuffix(name, "."+by.search)
	expanded = expanded && by.search != ""
	if expanded {
		if r := t.exact(base, by); r != nil {
			return found{r, base}, true
		}
	}
	if r := t.wildcard(name); r != nil {
		return found{record: r}, true
	}
	if expanded {
		if r := t.wildcard(base); r != nil {
			return found{r, base}, true
		}
	}
	return found{}, false
}

// exact finds a name of the table, or the Kubernetes name of which it is a short form.
func (t *Table) exact(name string, by *names) *record {
	if r := t.records[name]; r.hasAddresses() {
		return r
	}
	if by.domain == "" || strings.HasSuffix(name, "."+by.domain) {
		return nil
	}
	own := name + "." + by.namespace + "." + by.domain
	if r := t.records[own]; r.hasAddresses() && r.namespace == by.namespace && r.namespace != "" {
		return r
	}
	first, _, _ := strings.Cut(by.domain, ".") // "svc"
	name = strings.TrimSuffix(name, "."+first)
	full := name + "." + by.domain
	if r := t.records[full]; r.hasAddresses() && r.namespace != "" && strings.HasSuffix(name, "."+r.namespace) {
		return r
	}
	return nil
}

// wildcard finds the most specific wildcard of the table that a name is below.
func (t *Table) wildcard(name string) *record {
	for {
		_, parent, more := strings.Cut(name, ".")
		if !more {
			return nil
		}
		if r := t.records["*."+parent]; r.hasAddresses() {
			return r
		}
		name = parent
	}
}
