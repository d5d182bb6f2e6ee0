package convert

import (
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
)

const wantPort = "a number from 1 to 65535"

func (r *reader) port(p path, number int64) (uint16, bool) {
	if number < 1 || number > math.MaxUint16 {
		r.fail(p, number, "is no port", wantPort)
		return 0, false
	}
	return uint16(number), true
}

// portName checks the name of a port, which may be empty. It becomes a part of endpoint keys.
func (r *reader) portName(p path, name string) bool {
	if name == "" || labelMistake(name) == "" {
		return true
	}
	r.fail(p, name, "is no name of a port", "letters, digits and hyphens, at most 63")
	return false
}

// maxDuration is longer than any real duration, and shorter than what Envoy refuses.
const maxDuration = 10 * 365 * 24 * time.Hour

// durationOrZero reads a duration that may be 0; nil is 0.
func (r *reader) durationOrZero(p path, d *durationpb.Duration) time.Duration {
	if d == nil || (d.Seconds == 0 && d.Nanos == 0) {
		return 0
	}
	return r.duration(p, d)
}

// duration reads a duration of a millisecond or more; nil is 0.
func (r *reader) duration(p path, d *durationpb.Duration) time.Duration {
	if d == nil {
		return 0
	}
	const want = "a duration of 1ms to 87600h"
	if err := d.CheckValid(); err != nil {
		r.fail(p, nil, "is no duration", want)
		return 0
	}
	value := d.AsDuration()
	if value < time.Millisecond || value > maxDuration {
		r.fail(p, value, "is out of range", want)
		return 0
	}
	return value
}

// seconds reads a duration that the operating system takes in whole seconds; nil is 0.
func (r *reader) seconds(p path, d *durationpb.Duration) time.Duration {
	value := r.duration(p, d)
	if value != 0 && value < time.Second {
		r.fail(p, value, "is less than a second", "a duration of 1s or more")
		return 0
	}
	return value
}

// nonNegative reads a number that may not be negative.
func (r *reader) nonNegative(p path, n int32) uint32 {
	if n < 0 {
		r.fail(p, n, "is negative", "a number from 0")
		return 0
	}
	return uint32(n)
}

// wholePercent reads a percentage without fractions.
func (r *reader) wholePercent(p path, n int32) uint32 {
	if n < 0 || n > 100 {
		r.fail(p, n, "is no percentage", "a number from 0 to 100")
		return 0
	}
	return uint32(n)
}

// hundredPercent is 100 % in millionths.
const hundredPercent = 1_000_000

// percent reads a percentage, in millionths.
func (r *reader) percent(p path, in *networking.Percent) uint32 {
	v := in.GetValue()
	if !(v >= 0 && v <= 100) { // NaN is neither
		r.fail(p.dot("value"), v, "is no percentage", "a number from 0 to 100")
		return 0
	}
	return uint32(math.Round(v * hundredPercent / 100))
}

// address reads an IP literal in its canonical form.
func (r *reader) address(p path, text string) (string, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		r.fail(p, text, "is no IP address", "an IPv4 or IPv6 address")
		return "", false
	}
	return a.Unmap().String(), true
}

// unicastAddress reads an IP literal to which a connection can be made.
func (r *reader) unicastAddress(p path, text string) (string, bool) {
	known, ok := r.address(p, text)
	if !ok {
		return "", false
	}
	if a := netip.MustParseAddr(known); a.IsUnspecified() || a.IsMulticast() {
		r.fail(p, text, "is not the address of one machine", "an IPv4 or IPv6 unicast address")
		return "", false
	}
	return known, true
}

// isOwnMachine reports whether an address, or a name, leads to the machine of whoever calls it, or
// to what stands beside that: loopback or link-local, where clouds have their metadata.
func isOwnMachine(address string) bool {
	if strings.HasPrefix(address, unixPrefix) {
		return true
	}
	a, err := netip.ParseAddr(address)
	if err == nil {
		a = a.Unmap()
		return a.IsLoopback() || a.IsLinkLocalUnicast()
	}
	name := strings.ToLower(strings.TrimSuffix(address, "."))
	return strings.HasSuffix("."+name, ".localhost") || slices.Contains(ownMachineNames(), name)
}

// ownMachineNames are names that machines or the resolvers of clouds give to what isOwnMachine
// means: of loopback in /etc/hosts, and of the metadata at 169.254.169.254.
func ownMachineNames() []string {
	return []string{
		"localhost.localdomain", "localhost4", "localhost4.localdomain4", "localhost6", "localhost6.localdomain6",
		"ip6-localhost", "ip6-loopback",
		"metadata.google.internal", "instance-data.ec2.internal", "metadata.tencentyun.com",
	}
}

const wantAppPort = "a port of the application; 15000 to 15090 are the proxy's own"

// addressOrPrefix returns the canonical form of an IP literal or a prefix, with cleared host bits.
func addressOrPrefix(text string) (string, bool) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return a.Unmap().String(), true
	}
	if n, err := netip.ParsePrefix(text); err == nil {
		return n.Masked().String(), true
	}
	return "", false
}

// prefixes reads a list of prefixes; a bare address is a prefix of all its bits.
func (r *reader) prefixes(p path, list []string) []string {
	var out []string
	for i, text := range list {
		known := prefixText(text)
		if known == "" {
			r.fail(p.at(i), text, "is no IP address or prefix", wantPrefix)
			continue
		}
		out = append(out, known)
	}
	return sorted(out)
}

const wantPrefix = `an address as "10.0.0.1" or a prefix as "10.0.0.0/8"`

// prefixText returns the canonical form of a prefix, or "" if the text is none. A bare address is a
// prefix of all its bits.
func prefixText(text string) string {
	known, ok := addressOrPrefix(text)
	if !ok {
		return ""
	}
	if a, err := netip.ParseAddr(known); err == nil {
		known = netip.PrefixFrom(a, a.BitLen()).String()
	}
	return known
}

// maxRegexSize is Istio's bound in bytes too: a compiled expression costs memory in every proxy.
const maxRegexSize = 1024

// regex checks a regular expression. Go's syntax is that of RE2, which Envoy uses.
func (r *reader) regex(p path, text string) bool {
	switch _, err := regexp.Compile(text); {
	case text == "":
		r.fail(p, text, "is empty", "a regular expression in RE2 syntax")
	case len(text) > maxRegexSize:
		r.fail(p, text, fmt.Sprintf("has %d bytes", len(text)), fmt.Sprintf(
			"a regular expression of at most %d bytes", maxRegexSize,
		))
	case err != nil:
		r.fail(p, text, err.Error(), "a regular expression in RE2 syntax")
	case unknownClass(text) != "":
		r.fail(
			p, text, `names \p{`+unknownClass(text)+`}, which Envoy does not know`,
			`a category or script as \pL or \p{Greek}`,
		)
	default:
		return true
	}
	return false
}

// unknownClass returns the first Unicode class of an expression that Go knows and RE2 does not: Go
// takes long names and any spelling. Envoy would refuse a whole route table for it.
func unknownClass(text string) string {
	for {
		_, escaped, found := strings.Cut(text, `\`)
		if !found || len(escaped) < 2 {
			return ""
		}
		kind := escaped[0]
		text = escaped[1:]
		switch kind {
		case 'Q': // all is literal up to the end mark
			_, text, _ = strings.Cut(text, `\E`)
		case 'p', 'P':
			name := text[:1]
			if name == "{" {
				name, text, _ = strings.Cut(text[1:], "}")
			}
			if name = strings.TrimPrefix(name, "^"); !isRE2Class(name) {
				return name
			}
		}
	}
}

func isRE2Class(name string) bool {
	_, category := unicode.Categories[name]
	_, script := unicode.Scripts[name]
	return name == "Any" || script || category && name != "Cn" && name != "LC"
}

// sorted sorts a list in place and removes duplicates.
func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
