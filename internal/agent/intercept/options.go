package intercept

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Options say what is intercepted.
type Options struct {
	// OutboundPort and InboundPort are those of the proxy. TunnelPort takes its connections as they
	// come. DNSPort is the agent's.
	OutboundPort, InboundPort, TunnelPort, DNSPort uint16
	// Users and Groups are those of the proxy and its agent.
	Users, Groups []uint32
	// None leaves all connections alone.
	None bool
	// Transparent hands inbound connections to the proxy with their addresses as they are, for a
	// proxy that calls the application from the caller's address (TPROXY).
	Transparent bool
	// Inbound are the ports whose connections go to the proxy, but for NotInbound.
	Inbound    Ports
	NotInbound []uint16
	// Outbound are ranges whose connections go to the proxy, but for NotOutbound; AllOutbound
	// stands for all ranges.
	AllOutbound           bool
	Outbound, NotOutbound []netip.Prefix
	// OutboundPorts go to the proxy whatever the range, and NotOutboundPorts do not.
	OutboundPorts, NotOutboundPorts []uint16
	// NotInterfaces are left alone. What comes from Virtual ones (of virtual machines) is outbound.
	NotInterfaces, Virtual []string
	// DNS sends queries to the agent: those to Resolvers, or all of them.
	DNS, AllDNS bool
	Resolvers   []netip.Addr
	// DryRun prints the rules in place of setting them.
	DryRun bool
	// KeepRules leaves the rules as somebody else has set them, and Validates asks whether they
	// are set.
	KeepRules, Validates bool
	// ProbePort is what Validate calls, for ProbeTimeout at most.
	ProbePort    uint16
	ProbeTimeout time.Duration
	// NotInForce are flags that were given and change nothing.
	NotInForce []string
}

// Ports are some, or all.
type Ports struct {
	All  bool
	Some []uint16
}

// Surroundings are what a Pod says beside the flags.
type Surroundings struct {
	// Environ returns a variable.
	Environ func(name string) string
	// Resolvers are the name servers of /etc/resolv.conf.
	Resolvers []netip.Addr
}

// ignored are flags of istio-iptables that change nothing here, with those of its log. The mark of
// TPROXY is the one that the control plane tells proxies.
var ignored = []string{
	"istio-inbound-tproxy-mark", "istio-inbound-tproxy-route-table", "force-iptables-binary",
	"log_output_level", "log_target", "log_caller", "log_stacktrace_level", "vklog",
}

// ignoredSwitches are those without a value.
var ignoredSwitches = []string{
	"dual-stack", "cni-mode", "reconcile", "force-apply", "native-nftables", "drop-invalid", "log_as_json",
}

// Parse reads the flags of istio-iptables. The error names the flag, its value, and what would be
// right.
func Parse(args []string, in Surroundings) (Options, error) {
	f := pflag.NewFlagSet("istio-iptables", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	short := map[string]string{"istio-inbound-tproxy-mark": "t", "istio-inbound-tproxy-route-table": "r"}
	for _, name := range ignored {
		f.StringP(name, short[name], "", "")
	}
	for _, name := range ignoredSwitches {
		f.Bool(name, false, "")
	}
	r := reader{flags: f}
	o := Options{}
	r.port(&o.OutboundPort, "envoy-port", "p", "15001")
	r.port(&o.InboundPort, "inbound-capture-port", "z", "15006")
	r.port(&o.TunnelPort, "inbound-tunnel-port", "e", "15008")
	r.port(&o.DNSPort, "dns-port", "", "15053")
	r.ids(&o.Users, "proxy-uid", "u", "1337")
	r.ids(&o.Groups, "proxy-gid", "g", "")
	r.add("istio-inbound-interception-mode", "m", "REDIRECT", func(text string) (want string) {
		switch text {
		case "REDIRECT", "":
		case "TPROXY":
			o.Transparent = true
		case "NONE":
			o.None = true
		default:
			return "REDIRECT, TPROXY or NONE"
		}
		return ""
	})
	r.add("istio-inbound-ports", "b", "", func(text string) string {
		o.Inbound.All = text == "*"
		return portsOf(&o.Inbound.Some, strings.TrimPrefix(text, "*"))
	})
	r.ports(&o.NotInbound, "istio-local-exclude-ports", "d")
	r.ports(&o.OutboundPorts, "istio-outbound-ports", "q")
	r.ports(&o.NotOutboundPorts, "istio-local-outbound-ports-exclude", "o")
	r.add("istio-service-cidr", "i", "", func(text string) string {
		o.AllOutbound = text == "*"
		return rangesOf(&o.Outbound, strings.TrimPrefix(text, "*"))
	})
	r.add("istio-service-exclude-cidr", "x", "", func(text string) string { return rangesOf(&o.NotOutbound, text) })
	r.interfaces(&o.NotInterfaces, "istio-exclude-interfaces", "c")
	r.interfaces(&o.Virtual, "kube-virt-interfaces", "k")
	r.port(&o.ProbePort, "iptables-probe-port", "", "15002")
	f.DurationVar(&o.ProbeTimeout, "probe-timeout", 5*time.Second, "")
	f.BoolVar(&o.Validates, "run-validation", false, "")
	f.BoolVar(&o.KeepRules, "skip-rule-apply", false, "")
	dns := f.Bool("redirect-dns", isSet(in, "ISTIO_META_DNS_CAPTURE"), "")
	f.BoolVar(&o.AllDNS, "capture-all-dns", isSet(in, "CAPTURE_ALL_DNS"), "")
	cleanup := f.Bool("cleanup-only", false, "")
	f.BoolVarP(&o.DryRun, "dry-run", "n", false, "")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("argument %q has no flag", f.Arg(0))
	}
	if err := r.read(); err != nil {
		return o, err
	}
	if len(o.Groups) == 0 { // the proxy may run as root for low ports, and has its group then
		o.Groups = o.Users
	}
	o.None = o.None || *cleanup
	f.Visit(func(given *pflag.Flag) {
		if slices.Contains(ignored, given.Name) || slices.Contains(ignoredSwitches, given.Name) {
			o.NotInForce = append(o.NotInForce, given.Name)
		}
	})
	o.DNS, o.Resolvers = *dns && (o.AllDNS || len(in.Resolvers) > 0), in.Resolvers
	return o, nil
}

func isSet(in Surroundings, name string) bool {
	set, err := strconv.ParseBool(in.Environ(name))
	return set && err == nil
}

// reader reads flags as texts first, so that an error can name what would be right.
type reader struct {
	flags *pflag.FlagSet
	rest  []func() error
}

// add declares a flag. set reads its text, and returns what would be right if that is wrong.
func (r *reader) add(name, short, standard string, set func(text string) (want string)) {
	text := r.flags.StringP(name, short, standard, "")
	r.rest = append(r.rest, func() error {
		if want := set(strings.TrimSpace(*text)); want != "" {
			return fmt.Errorf("--%s (-%s) = %q; want %s", name, short, *text, want)
		}
		return nil
	})
}

func (r *reader) read() error {
	var problems []error
	for _, read := range r.rest {
		problems = append(problems, read())
	}
	return errors.Join(problems...)
}

func (r *reader) port(into *uint16, name, short, standard string) {
	r.add(name, short, standard, func(text string) string {
		var all []uint16
		if portsOf(&all, text) != "" || len(all) != 1 {
			return "a port"
		}
		*into = all[0]
		return ""
	})
}

func (r *reader) ports(into *[]uint16, name, short string) {
	r.add(name, short, "", func(text string) string { return portsOf(into, text) })
}

func (r *reader) ids(into *[]uint32, name, short, standard string) {
	r.add(name, short, standard, func(text string) string {
		for _, part := range parts(text) {
			id, err := strconv.ParseUint(part, 10, 32)
			if err != nil || id == 0 {
				return "numbers of users or groups above 0, as 1337"
			}
			*into = append(*into, uint32(id))
		}
		return ""
	})
}

var interfaceName = regexp.MustCompile(`^[A-Za-z0-9_.:@-]{1,15}$`)

func (r *reader) interfaces(into *[]string, name, short string) {
	r.add(name, short, "", func(text string) string {
		for _, part := range parts(text) {
			if !interfaceName.MatchString(part) {
				return "names of network interfaces, as eth1,net1"
			}
			*into = append(*into, part)
		}
		return ""
	})
}

// parts returns the parts of a list with commas that are not empty.
func parts(text string) []string {
	var all []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

func portsOf(into *[]uint16, text string) (want string) {
	for _, part := range parts(text) {
		port, err := strconv.ParseUint(part, 10, 16)
		if err != nil || port == 0 {
			return "ports, as 8080,9090"
		}
		*into = append(*into, uint16(port))
	}
	return ""
}

func rangesOf(into *[]netip.Prefix, text string) (want string) {
	for _, part := range parts(text) {
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return "ranges of addresses, as 10.0.0.0/8,fd00::/8"
		}
		*into = append(*into, prefix.Masked())
	}
	return ""
}
