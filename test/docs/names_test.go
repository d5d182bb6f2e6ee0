package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	makeCall   = regexp.MustCompile(`^make ([a-z][a-z-]*)`)
	filePath   = regexp.MustCompile(`^(?:\.{0,2}/)?[\w.-]+(?:/[\w.-]+)+/?$`)
	goFile     = regexp.MustCompile(`^\w+\.go$`)
	qualified  = regexp.MustCompile(`^([a-z]\w*)\.([A-Za-z]\w*)$`)
	camelCase  = regexp.MustCompile(`^[A-Za-z]*[a-z][A-Z]\w*$`)
	goWord     = regexp.MustCompile(`\w+`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

// sources know the names in the repository: Go files by directory, and words of their text.
type sources struct {
	dirs    map[string]map[string]bool // words of the Go files of a directory
	base    map[string][]string        // directories by their last element
	words   map[string]bool            // words of all Go files
	goFiles map[string]bool            // by their names without directories
	targets map[string]bool            // of the Makefile
}

func readSources(t *testing.T) *sources {
	t.Helper()
	s := &sources{map[string]map[string]bool{}, map[string][]string{}, map[string]bool{}, map[string]bool{},
		map[string]bool{}}
	files(t, ".go", func(name string) {
		if name == "test/docs/names_test.go" {
			return // its examples exist nowhere
		}
		dir := path.Dir(name)
		if s.dirs[dir] == nil {
			s.dirs[dir] = map[string]bool{}
			s.base[path.Base(dir)] = append(s.base[path.Base(dir)], dir)
		}
		s.goFiles[path.Base(name)] = true
		for _, w := range goWord.FindAllString(read(t, name), -1) {
			s.dirs[dir][w], s.words[w] = true, true
		}
	})
	for _, m := range makeTarget.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		s.targets[m[1]] = true
	}
	return s
}

// has reports whether code in backticks names something that exists. It is true for what is no
// name: placeholders (NAME), commands other than make, Go expressions.
func (s *sources) has(code string) bool {
	if strings.Contains(code, "NAME") || strings.Contains(code, "DIR") {
		return true
	}
	if m := makeCall.FindStringSubmatch(code); m != nil {
		return s.targets[m[1]]
	}
	if goFile.MatchString(code) {
		return s.goFiles[code]
	}
	if filePath.MatchString(code) {
		return existsBelow(code)
	}
	if m := qualified.FindStringSubmatch(code); m != nil && len(s.base[m[1]]) > 0 {
		for _, dir := range s.base[m[1]] {
			if s.dirs[dir][m[2]] {
				return true
			}
		}
		return false
	}
	return !camelCase.MatchString(code) || s.words[code]
}

// existsBelow reports whether a path is there, from the root or from internal. It is true for paths
// that begin with a directory of neither: they are relative to something else.
func existsBelow(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	known := false
	for _, from := range []string{root, filepath.Join(root, "internal")} {
		if _, err := os.Stat(filepath.Join(from, filepath.FromSlash(name))); err == nil {
			return true
		}
		_, err := os.Stat(filepath.Join(from, first))
		known = known || err == nil
	}
	isBuilt := first == ".tools" || first == "bin" // or fetched
	return !known || isBuilt
}

// TestNamesInRecipesExist: what the pages for contributors name in backticks (files, directories,
// make targets, identifiers with a package, identifiers in mixed case) is there.
func TestNamesInRecipesExist(t *testing.T) {
	s, checked := readSources(t), 0
	for _, p := range pages(t) {
		if p.path != "CONTRIBUTING.md" && !strings.HasPrefix(p.path, "docs/contributing/") {
			continue
		}
		text := strings.Join(p.prose(), "\n")
		for _, code := range inlineCode.FindAllString(text, -1) {
			assert.True(t, s.has(strings.Trim(code, "`")), "%s names %s, which is not there", p.path, code)
			checked++
		}
	}
	require.Greater(t, checked, 100)
}

// TestMissingNamesAreFound: each form of a name is noticed when nothing has it.
func TestMissingNamesAreFound(t *testing.T) {
	s := readSources(t)
	for _, code := range []string{
		"failClosedSpecs", "istiojson.OpenSpec", "make sandwich", "internal/source/kube/codecs.go", "closedspec.go",
		"source/kubernetes",
	} {
		assert.False(t, s.has(code), code)
	}
	for _, code := range []string{
		"istiojson.ClosedSpec", "make lint", "internal/source/istiojson/closed.go", "closed.go", "source/untrusted",
		"go test ./internal/cli", "internal/cli/NAME.go", "join",
	} {
		assert.True(t, s.has(code), code)
	}
}
