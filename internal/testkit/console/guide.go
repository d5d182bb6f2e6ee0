package console

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// LocalGuide is the guide that shows what lateen up and its like print, from a package of
// internal/cli.
const LocalGuide = "../../../docs/guides/local.md"

// Shows fails unless a guide has a line with the words of one that a command prints. Numbers, names
// of Pods and addresses may differ: what is between two spaces counts only if it has no digit.
func Shows(t testing.TB, guide, line string) {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(guide))
	if err != nil {
		t.Fatal(err)
	}
	want := words(line)
	for shown := range strings.Lines(string(text)) {
		if slices.Equal(words(shown), want) {
			return
		}
	}
	t.Errorf("%s has no line as %q", guide, line)
}

// words returns those of a line, and "0" for each that has a digit.
func words(line string) []string {
	all := strings.Fields(line)
	for i, word := range all {
		if withDigit.MatchString(word) {
			all[i] = "0"
		}
	}
	return all
}

var withDigit = regexp.MustCompile(`\d`)
