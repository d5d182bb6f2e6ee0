package model

import (
	"cmp"
	"slices"
	"strings"
)

// Telemetry says what workloads log, trace and count.
type Telemetry struct {
	Meta
	Selection
	AccessLogs []LogRule
	Tracing    []TracingRule
	Metrics    []MetricsRule
}

// TracerHosts returns the hosts that spans go to by a rule, in order.
func (t *Telemetry) TracerHosts() []Host {
	var all []Host
	for _, r := range t.Tracing {
		if r.Tracer != nil {
			all = append(all, r.Tracer.Host)
		}
	}
	return SortedDistinct(all)
}

// WorkloadMode is the side of a call that a rule is for.
type WorkloadMode uint8

const (
	// ClientAndServer is any call.
	ClientAndServer WorkloadMode = iota
	// ClientMode is a call that the workload makes, and all of a gateway.
	ClientMode
	// ServerMode is a call that the workload takes.
	ServerMode
)

// covers reports whether a rule for the mode is for calls on one side.
func (m WorkloadMode) covers(side WorkloadMode) bool { return m == ClientAndServer || m == side }

// LogProvider is a provider of access logs by its name.
type LogProvider struct {
	Name string
	Log  *AccessLog // canonical
}

// LogRule is one entry of accessLogging.
type LogRule struct {
	Mode WorkloadMode
	// Inherits takes the providers of the entry before, else the rule's are all of Providers.
	Inherits  bool
	Providers []LogProvider
	Disabled  bool
	// Filter is an expression in CEL; empty for all entries.
	Filter string
}

// MergedLogs returns where calls on one side are logged, sorted by the names of providers. The
// Telemetries are those of the mesh, the namespace and the workload, in this order. As in Istio:
//
//   - The providers in force are those that the nearest level names for the side, else the default
//     ones. An entry without providers is for those of the entry before it.
//   - Of a provider the last entry for the side counts. A filter holds until another entry names
//     the provider.
//   - Where no entry is for the side, it is logged as the mesh configuration's accessLogFile and
//     enableEnvoyAccessLogService say, without its default providers.
//
// Other than in istiod, an entry without providers, where there are none to inherit, is for these
// logs of the mesh configuration: Istio's reference disables access logs by such an entry.
func MergedLogs(mesh *MeshConfig, levels []*Telemetry, side WorkloadMode) []*AccessLog {
	if !slices.ContainsFunc(levels, func(t *Telemetry) bool { return len(t.AccessLogs) > 0 }) {
		return mesh.AccessLogs
	}
	inForce, parent := namedLogs(mesh, levels, side), mesh.DefaultLogs
	rules := map[string]LogRule{}
	var legacy LogRule
	for _, t := range levels {
		for _, rule := range t.AccessLogs {
			if rule.Inherits {
				rule.Providers = parent
				if len(parent) == 0 && rule.Mode.covers(side) {
					legacy.Disabled, legacy.Filter = rule.Disabled, cmp.Or(rule.Filter, legacy.Filter)
				}
			}
			parent = rule.Providers
			if rule.Mode.covers(side) {
				rule.putInto(rules)
			}
		}
	}
	var logs []*AccessLog
	found := false
	for _, p := range inForce {
		rule, said := rules[p.Name]
		found = found || said
		if said && !rule.Disabled {
			logs = append(logs, filteredLog(p.Log, rule.Filter))
		}
	}
	switch {
	case found:
		return logs
	case legacy.Disabled:
		return nil
	case legacy.Filter == "":
		return mesh.LegacyLogs
	}
	for _, log := range mesh.LegacyLogs {
		logs = append(logs, filteredLog(log, legacy.Filter))
	}
	return logs
}

// namedLogs returns the providers in force on one side, sorted by name.
func namedLogs(mesh *MeshConfig, levels []*Telemetry, side WorkloadMode) []LogProvider {
	inForce := mesh.DefaultLogs
	for _, t := range levels {
		var named []LogProvider
		for _, rule := range t.AccessLogs {
			if !rule.Inherits && rule.Mode.covers(side) {
				named = append(named, rule.Providers...)
			}
		}
		if len(named) > 0 {
			inForce = named
		}
	}
	byName := func(a, b LogProvider) int { return strings.Compare(a.Name, b.Name) }
	sorted := slices.SortedFunc(slices.Values(inForce), byName)
	return slices.CompactFunc(sorted, func(a, b LogProvider) bool { return a.Name == b.Name })
}

// putInto makes the rule that of its providers. One that inherits them and has no filter leaves
// theirs.
func (r LogRule) putInto(rules map[string]LogRule) {
	for _, p := range r.Providers {
		one := r
		if r.Inherits && r.Filter == "" {
			one.Filter = rules[p.Name].Filter
		}
		rules[p.Name] = one
	}
}

// filteredLog returns a log with a filter, which may be empty.
func filteredLog(log *AccessLog, filter string) *AccessLog {
	if filter == "" {
		return log
	}
	with := *log
	with.Filter = filter
	return &with
}
