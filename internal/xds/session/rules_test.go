package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const protocolDoc = "../../../docs/protocol.md"

// proofs are the rows of the table in docs/protocol.md that says what shows each rule: "| P1 |
// `p01_wildcard` |". A script is named without .txt, a Go test as package.TestName.
func proofs(t *testing.T) (rules []string, of map[string][]string) {
	t.Helper()
	doc, err := os.ReadFile(protocolDoc)
	require.NoError(t, err)
	_, section, found := strings.Cut(string(doc), "\n## 3. ")
	require.True(t, found, "the section with the table")
	row := regexp.MustCompile(`(?m)^\| (P\d+|–) \|(.*)\|$`)
	code := regexp.MustCompile("`([^`]+)`")
	of = map[string][]string{}
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		rules = append(rules, m[1])
		for _, c := range code.FindAllStringSubmatch(m[2], -1) {
			of[m[1]] = append(of[m[1]], c[1])
		}
	}
	return rules, of
}

// TestEveryRuleHasAScript: each rule is shown by a script, or by a test where it is not the
// session's; P20 is a part of P27.
func TestEveryRuleHasAScript(t *testing.T) {
	rules, of := proofs(t)
	var want []string
	for i := 1; i <= 27; i++ {
		if i != 20 {
			want = append(want, fmt.Sprintf("P%d", i))
		}
	}
	require.Equal(t, append(want, "–"), rules)
	for _, rule := range rules {
		require.NotEmpty(t, of[rule], rule)
	}
}

// TestRulesInProtocolDocMatchScripts: it names every script once under its own rule, and nothing
// that does not exist.
func TestRulesInProtocolDocMatchScripts(t *testing.T) {
	_, of := proofs(t)
	listed := map[string]bool{}
	for rule, names := range of {
		for _, name := range names {
			if dir, test, ok := strings.Cut(name, "."); ok {
				require.True(t, hasTest(t, dir, test), "%s: %s is not there", rule, name)
				continue
			}
			require.FileExists(t, filepath.Join("testdata", name+".txt"), rule)
			require.False(t, listed[name], "%s stands there twice", name)
			listed[name] = true
			if number, ok := strings.CutPrefix(rule, "P"); ok {
				require.True(t, strings.HasPrefix(name, fmt.Sprintf("p%02s_", number)), "%s: %s", rule, name)
			}
		}
	}
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, file := range files {
		require.True(t, listed[strings.TrimSuffix(filepath.Base(file), ".txt")], "%s is not in the table", file)
	}
}

// TestScriptsBeginWithTheirRule: a script begins with the rule in words.
func TestScriptsBeginWithTheirRule(t *testing.T) {
	_, of := proofs(t)
	for rule, names := range of {
		for _, name := range names {
			script, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			if rule == "–" || err != nil {
				continue
			}
			require.Regexp(t, `^# (P\d+, )*`+rule+`[,:]`, string(script), name)
		}
	}
}

// hasTest looks for a test in the package of that name somewhere in internal.
func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	for _, depth := range []string{"*", "*/*"} {
		files, err := filepath.Glob(filepath.Join("../..", depth, "*_test.go"))
		require.NoError(t, err)
		if slices.ContainsFunc(files, func(f string) bool {
			if filepath.Base(filepath.Dir(f)) != pkg {
				return false
			}
			b, err := os.ReadFile(f)
			return err == nil && strings.Contains(string(b), "func "+name+"(")
		}) {
			return true
		}
	}
	return false
}
