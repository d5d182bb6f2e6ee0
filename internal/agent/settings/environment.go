package settings

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// environment reads variables and collects what is wrong with them. A variable that is empty counts
// as not set, because templates write such.
type environment struct {
	values  map[string]string
	errs    []error
	notices []string
}

func newEnvironment(environ []string) *environment {
	e := &environment{values: make(map[string]string, len(environ))}
	for _, v := range environ {
		if name, value, ok := strings.Cut(v, "="); ok {
			e.values[name] = value
		}
	}
	return e
}

func (e *environment) refuse(name string, format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...)))
}

func (e *environment) note(format string, args ...any) {
	e.notices = append(e.notices, fmt.Sprintf(format, args...))
}

func (e *environment) text(name, fallback string) string {
	if v := e.values[name]; v != "" {
		return v
	}
	return fallback
}

func (e *environment) required(name string) string {
	v := e.values[name]
	if v == "" {
		e.refuse(name, "is not set; the Pod's template sets it from the downward API")
	}
	return v
}

func (e *environment) flag(name string, fallback bool) bool {
	v := e.values[name]
	if v == "" {
		return fallback
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		e.refuse(name, "%q is neither true nor false", v)
	}
	return b
}

func (e *environment) port(name string, fallback uint16) uint16 {
	v := e.values[name]
	if v == "" {
		return fallback
	}
	p, err := strconv.ParseUint(v, 10, 16)
	if err != nil || p == 0 {
		e.refuse(name, "%q is no port; want 1 to 65535", v)
	}
	return uint16(p)
}

// count reads a number that is not negative.
func (e *environment) count(name string, fallback int) int {
	v := e.values[name]
	if v == "" {
		return fallback
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		e.refuse(name, "%q is no number of 0 or more", v)
	}
	return int(n)
}

func (e *environment) duration(name string, fallback time.Duration) time.Duration {
	v := e.values[name]
	if v == "" {
		return fallback
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		e.refuse(name, "%q is no duration; want one as 5s or 1h30m", v)
	}
	return d
}

// ratio reads a number from 0 to below 1.
func (e *environment) ratio(name string, fallback float64) float64 {
	v := e.values[name]
	if v == "" {
		return fallback
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= 0 && f < 1) {
		e.refuse(name, "%q is not between 0 and 1", v)
	}
	return f
}

func (e *environment) oneOf(name, fallback string, values ...string) string {
	v := e.text(name, fallback)
	for _, w := range values {
		if v == w {
			return v
		}
	}
	e.refuse(name, "%q does not exist; want %s", v, strings.Join(values, ", "))
	return fallback
}

// address reads a host with its port.
func (e *environment) address(name, value string) string {
	host, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || host == "" {
		e.refuse(name, "%q is no address; want one as istiod.istio-system.svc:15012", value)
	}
	return value
}

// withPrefix returns the variables whose names begin with the prefix, by the rest of their names.
func (e *environment) withPrefix(prefix string) map[string]string {
	found := map[string]string{}
	for name, value := range e.values {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			found[rest] = value
		}
	}
	return found
}

// kubelet returns the addresses from which the kubelet of this node calls: the node's own, or what
// the network has as the Pod's gateway, which is the node too.
func (e *environment) kubelet(gateways []netip.Addr) []netip.Prefix {
	var all []netip.Prefix
	if a, err := netip.ParseAddr(e.text("HOST_IP", "")); err == nil {
		gateways = append(slices.Clone(gateways), a)
	}
	for _, a := range gateways {
		a = a.Unmap()
		all = append(all, netip.PrefixFrom(a, a.BitLen()))
	}
	for _, text := range strings.Split(e.text("LATEEN_KUBELET_ADDRESSES", ""), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			e.refuse("LATEEN_KUBELET_ADDRESSES", "%q is no address; want addresses or prefixes as 10.0.0.0/8, "+
				"between commas", text)
			continue
		}
		all = append(all, p.Masked())
	}
	return all
}
