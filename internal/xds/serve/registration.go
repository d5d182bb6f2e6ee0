package serve

import "bytes"

// Registration is what a proxy outside of Kubernetes says of its machine.
type Registration struct {
	// Group is the WorkloadGroup that its WorkloadEntry is made from (AUTO_REGISTER_GROUP), and
	// Entry a WorkloadEntry that is there (WORKLOAD_ENTRY).
	Group, Entry string
	Network      string // NETWORK
	// Probes is set if its agent probes the workload (PROXY_CONFIG.readinessProbe).
	Probes bool
}

const (
	groupKey = "AUTO_REGISTER_GROUP"
	entryKey = "WORKLOAD_ENTRY"
)

// Registration returns what the node says of its machine. It reports false if that names neither a
// group nor an entry, as no Pod does. Each call decodes what was sent.
func (m *Metadata) Registration() (Registration, bool) {
	if !bytes.Contains(m.raw, []byte(groupKey)) && !bytes.Contains(m.raw, []byte(entryKey)) {
		return Registration{}, false // nearly all proxies, for which nothing is decoded
	}
	r := metadataReader{fields: m.Raw().GetFields()}
	own := Registration{Group: r.text(groupKey), Entry: r.text(entryKey), Network: r.text("NETWORK")}
	_, own.Probes = r.object("PROXY_CONFIG").GetFields()["readinessProbe"]
	return own, own.Group != "" || own.Entry != ""
}
