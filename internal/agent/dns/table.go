package dns

import (
	"maps"
	"net/netip"
	"strings"
	"sync"

	"github.com/lateen-mesh/lateen/internal/xds/nametable"
)

// Table is what the control plane says of names. It is safe for concurrent use.
type Table struct {
	mu      sync.RWMutex
	records map[string]*record // by the name in lower case, without a dot at its end
	ready   bool
}

// record is what a name stands for. It never changes.
type record struct {
	v4, v6 []netip.Addr
	// namespace is that of a Kubernetes name, which has short forms; "" for others.
	namespace string
	version   string
}

// NewTable returns a table that nobody has filled yet.
func NewTable() *Table { return &Table{records: map[string]*record{}} }

// Replace makes the names the whole table. Names without addresses are left out.
func (t *Table) Replace(names []nametable.Name) {
	records := make(map[string]*record, len(names))
	for i := range names {
		if r := recordOf(&names[i], ""); r != nil {
			records[keyOf(names[i].Host)] = r
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records, t.ready = records, true
}

// Resource is one name as a resource of its own: its version, and the table with the name alone.
type Resource struct {
	Name, Version string
	Body          []byte
}

// Update takes a response in which each name is a resource. A resource that cannot be read changes
// nothing, and neither do the others that come with it: the error is for the control plane.
func (t *Table) Update(changed []Resource, removed []string) error {
	records := make(map[string]*record, len(changed))
	for _, c := range changed {
		names, err := nametable.Parse(c.Body)
		if err != nil {
			return err
		}
		key := keyOf(c.Name)
		records[key] = &record{version: c.Version} // known, even without an address that can be read
		for i := range names {
			if r := recordOf(&names[i], c.Version); r != nil && keyOf(names[i].Host) == key {
				records[key] = r
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range removed {
		delete(t.records, keyOf(name))
	}
	maps.Copy(t.records, records)
	t.ready = true
	return nil
}

// Versions returns the versions of the names that Update brought. A client reports them on its next
// stream, so that it is sent what differs.
func (t *Table) Versions() map[string]string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	versions := map[string]string{}
	for name, r := range t.records {
		if r.version != "" {
			versions[name] = r.version
		}
	}
	return versions
}

// Ready reports whether the control plane has said once what names there are.
func (t *Table) Ready() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.ready
}

// Len returns the number of names.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.records)
}

// recordOf returns what a name stands for, nil if it has no address. An address that cannot be read
// is left out.
func recordOf(n *nametable.Name, version string) *record {
	r := &record{version: version}
	for _, text := range n.IPs {
		ip, err := netip.ParseAddr(text)
		switch ip = ip.Unmap().WithZone(""); {
		case err != nil:
		case ip.Is4():
			r.v4 = append(r.v4, ip)
		default:
			r.v6 = append(r.v6, ip)
		}
	}
	if len(r.v4)+len(r.v6) == 0 {
		return nil
	}
	if n.Registry == nametable.Kubernetes {
		r.namespace = n.Namespace
	}
	return r
}

// hasAddresses reports whether a record answers anything; nil does not.
func (r *record) hasAddresses() bool { return r != nil && len(r.v4)+len(r.v6) > 0 }

func keyOf(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }
