package intercept

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// surroundings are those of a Pod with two resolvers.
func surroundings(variables map[string]string) Surroundings {
	return Surroundings{
		Environ:   func(name string) string { return variables[name] },
		Resolvers: []netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00::a")},
	}
}

// TestGolden shows the rules of each case: its first lines are variables, the next one the
// arguments.
func TestGolden(t *testing.T) {
	golden.Scripts(t, "*.txt", func(t *testing.T, text string) string {
		given, _, _ := strings.Cut(text, "----\n")
		variables, words := map[string]string{}, []string(nil)
		for line := range strings.Lines(given) {
			line = strings.TrimSpace(line)
			if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "-") {
				variables[name] = value
				continue
			}
			for word := range strings.FieldsSeq(line) {
				words = append(words, strings.Trim(word, `"`))
			}
		}
		o, err := Parse(words, surroundings(variables))
		if err != nil {
			return given + "----\nerror: " + err.Error() + "\n"
		}
		out := given + "----\n"
		if len(o.NotInForce) > 0 {
			out += "not in force: " + strings.Join(o.NotInForce, " ") + "\n"
		}
		return out + Text(o)
	})
}

// FuzzParse: whatever the arguments are, they are read or refused.
func FuzzParse(f *testing.F) {
	f.Add("-p 15001 -z 15006 -u 1337 -m REDIRECT -i * -x  -b * -d 15090,15021", false)
	f.Add("-i 10.0.0.0/8,fd00::/8 -x 10.1.0.0/16 -b 80 -c eth1 -k net1 -q 1 -o 2 --redirect-dns", true)
	f.Fuzz(func(t *testing.T, line string, dns bool) {
		o, err := Parse(strings.Fields(line), surroundings(map[string]string{"CAPTURE_ALL_DNS": "x"}))
		if err != nil {
			return
		}
		o.DNS = dns
		require.NotContains(t, Text(o), "\x00")
	})
}
