package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

const (
	maxColumns      = 100
	maxCodeColumns  = 120
	maxArchitecture = 15_000 // bytes
)

// page is a Markdown file.
type page struct {
	path string // from the root, with slashes
	text string
}

// files calls visit with the path of each file with such a name. Hidden directories and bin hold
// what was built or fetched.
func files(t *testing.T, suffix string, visit func(path string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, suffix) {
			relative, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			visit(filepath.ToSlash(relative))
		}
		return nil
	}))
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(text)
}

func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	files(t, ".md", func(name string) { all = append(all, page{name, read(t, name)}) })
	require.NotEmpty(t, all)
	return all
}

// isDecision reports whether a page is a decision. Decisions tell what was known when they were
// taken, and are not edited afterwards.
func (p page) isDecision() bool { return strings.HasPrefix(p.path, "docs/decisions/0") }

// prose returns the lines without those of code blocks, which are empty in it.
func (p page) prose() []string {
	lines := strings.Split(p.text, "\n")
	inCode := false
	for i, line := range lines {
		isFence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if isFence {
			inCode = !inCode
		}
		if isFence || inCode {
			lines[i] = ""
		}
	}
	return lines
}

// anchors returns the fragments by which the headings of a page are linked, as GitHub makes them.
func (p page) anchors() map[string]bool {
	all := map[string]bool{}
	for _, line := range p.prose() {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading))] = true
	}
	return all
}

var (
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// links returns the targets of the page's links within the repository.
func (p page) links() []string {
	var all []string
	text := inlineCode.ReplaceAllString(strings.Join(p.prose(), "\n"), "")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], "://") {
			all = append(all, m[1])
		}
	}
	return all
}

func TestLinksResolve(t *testing.T) {
	for _, p := range pages(t) {
		for _, l := range p.links() {
			file, fragment, _ := strings.Cut(l, "#")
			target := p.path
			if file != "" {
				target = path.Join(path.Dir(p.path), file)
			}
			if !assert.FileExists(t, filepath.Join(root, filepath.FromSlash(target)), "%s links to %s", p.path, l) {
				continue
			}
			if fragment != "" {
				anchors := page{target, read(t, target)}.anchors()
				assert.True(t, anchors[fragment], "%s links to %s: the page has no such heading", p.path, l)
			}
		}
	}
}

// Tables may be wider, and so may a line of one word, which nobody can break.
func TestLinesAreShort(t *testing.T) {
	for _, p := range pages(t) {
		if p.isDecision() {
			continue
		}
		prose := p.prose()
		for i, line := range strings.Split(p.text, "\n") {
			limit := maxColumns
			if prose[i] == "" {
				limit = maxCodeColumns
			}
			if !strings.HasPrefix(line, "|") && strings.Contains(strings.TrimSpace(line), " ") {
				assert.LessOrEqual(t, utf8.RuneCountInString(line), limit, "%s:%d", p.path, i+1)
			}
		}
	}
}

func TestArchitectureFitsOnePage(t *testing.T) {
	require.LessOrEqual(t, len(read(t, "docs/architecture.md")), maxArchitecture)
}

// namedTest matches the name of a test, with its package if it stands there, and its subtests.
var namedTest = regexp.MustCompile(
	"`(?:([\\w/]+)\\.)?((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`(?: \\(([A-Z]\\w*(?:, [A-Z]\\w*)*)\\))?",
)

// TestNamedTestsExist: a page names a test as `TestName`, or as `package.TestName` with as much of
// the package's path as it takes to know it. Names of its subtests may follow in parentheses: each
// is a string in a test's file there.
func TestNamedTestsExist(t *testing.T) {
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	places, texts := map[string][]string{}, map[string]string{}
	files(t, "_test.go", func(name string) {
		text, dir := read(t, name), "/"+path.Dir(name)
		texts[dir] += text
		for _, m := range function.FindAllStringSubmatch(text, -1) {
			places[m[1]] = append(places[m[1]], dir)
		}
	})
	for _, p := range pages(t) {
		if p.isDecision() {
			continue
		}
		for _, m := range namedTest.FindAllStringSubmatch(strings.Join(p.prose(), "\n"), -1) {
			assert.NotEmpty(t, places[m[2]], "%s names %s", p.path, m[0])
			assert.True(t, m[1] == "" || hasSuffix(places[m[2]], "/"+m[1]), "%s names %s, which is in %v", p.path, m[0],
				places[m[2]])
			for subtest := range strings.SplitSeq(m[3], ", ") {
				assert.True(t, m[3] == "" || slices.ContainsFunc(places[m[2]], func(dir string) bool {
					isPackage := m[1] == "" || strings.HasSuffix(dir, "/"+m[1])
					return isPackage && strings.Contains(texts[dir], `"`+subtest+`"`)
				}), "%s names %s: there is no %s", p.path, m[0], subtest)
			}
		}
	}
}

// TestEachThreatNamesATest: the last cell of each row of the threat model's tables of threats names
// a test, and nothing else as code.
func TestEachThreatNamesATest(t *testing.T) {
	inTable, rows := false, 0
	for _, line := range (page{"", read(t, "docs/threat-model.md")}).prose() {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		last := cells[len(cells)-1]
		switch {
		case strings.HasPrefix(line, "| threat |"):
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && !strings.HasPrefix(line, "|---"):
			rows++
			assert.Regexp(t, namedTest, last, line)
			assert.Empty(t, inlineCode.FindAllString(namedTest.ReplaceAllString(last, ""), -1), line)
		}
	}
	require.Greater(t, rows, 50)
}

func hasSuffix(all []string, suffix string) bool {
	for _, s := range all {
		if strings.HasSuffix(s, suffix) {
			return true
		}
	}
	return false
}

// The pages of decisions have a list of their own.
func TestDocumentsLeadToEveryPage(t *testing.T) {
	const index, decisions = "docs/README.md", "docs/decisions/README.md"
	linked := map[string]bool{index: true}
	for _, from := range []string{index, decisions} {
		for _, l := range (page{from, read(t, from)}).links() {
			linked[path.Join(path.Dir(from), l)] = true
		}
	}
	for _, p := range pages(t) {
		if strings.HasPrefix(p.path, "docs/") {
			assert.True(t, linked[p.path], "neither %s nor %s leads to %s", index, decisions, p.path)
		}
	}
}
