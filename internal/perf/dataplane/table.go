package dataplane

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// Title says in a few lines what was measured.
func (r Report) Title() string {
	tls := "plaintext"
	if r.MutualTLS {
		tls = "mutual TLS"
	}
	onOff := func(on bool) string { return map[bool]string{true: "on", false: "off"}[on] }
	traced := "off"
	if r.Tracing != nil {
		traced = fmt.Sprintf("%v %%", *r.Tracing)
	}
	return fmt.Sprintf("%s, %d bytes, %s, %d workers, %d policies, telemetry %s, access logs %s, tracing %s\n"+
		"%d rounds of %v for each path; %d CPUs (%s)", r.Protocol, r.Payload, tls, r.Workers, r.Policies,
		onOff(r.Telemetry), onOff(r.AccessLogs), traced, r.Rounds, time.Duration(r.Duration), r.Machine.Cores,
		r.Machine.CPU)
}

// LatencyTable has a row for each path of each case, in milliseconds. What a path adds to the
// baseline stands behind a plus.
func (r Report) LatencyTable() terminal.Table {
	t := terminal.Table{Header: []string{"PATH", "CONNS", "QPS", "p50 ms", "p75", "p90", "p99", "p99.9", "p99 added"}}
	for _, c := range r.Cases {
		for _, p := range c.Paths {
			l, added := p.Latency, ""
			if p.Added != nil {
				added = "+" + milliseconds(p.Added.P99)
				if p.Added.P99 < 0 {
					added = milliseconds(p.Added.P99)
				}
			}
			t.Row(p.Path, strconv.Itoa(c.Connections), fmt.Sprintf("%.0f", p.QPS), milliseconds(l.P50),
				milliseconds(l.P75), milliseconds(l.P90), milliseconds(l.P99), milliseconds(l.P999), added)
		}
	}
	return t
}

// ProxyTable has a row for each proxy of each path of each case.
func (r Report) ProxyTable() terminal.Table {
	t := terminal.Table{Header: []string{"PATH", "CONNS", "PROXY", "vCPU per 1,000/s", "MEMORY MB"}}
	for _, c := range r.Cases {
		for _, p := range c.Paths {
			for _, x := range p.Proxies {
				t.Row(p.Path, strconv.Itoa(c.Connections), x.Name, fmt.Sprintf("%.3f", x.Cores()),
					fmt.Sprintf("%.1f", float64(x.Resident)/1e6))
			}
		}
	}
	return t
}

func milliseconds(s Seconds) string { return fmt.Sprintf("%.2f", 1000*s.Float()) }
