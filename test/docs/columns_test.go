package docs

import (
	"flag"
	"go/scanner"
	"go/token"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	commentsNotDone = "test/docs/testdata/comments_not_done.txt"
	linter          = ".golangci.yml"
)

var update = flag.Bool("update", false, "take packages out of the lists of those whose lines are too long")

// TestCommentsAreAtMost100Columns: a tab has four columns. Code blocks, tables and drawings, which
// are indented in the comment, have the columns of code. Directives and lines with a URL may be
// longer. A comment behind code belongs to a line of code.
//
// comments_not_done.txt lists the packages that do not hold it yet. The list can only shrink: a
// package that holds it has to leave, which `go test ./test/docs -update` does.
func TestCommentsAreAtMost100Columns(t *testing.T) {
	allowed := strings.Fields(read(t, commentsNotDone))
	left := checkColumns(t, allowed, longComments)
	if *update {
		write(t, commentsNotDone, strings.Join(left, "\n")+"\n")
	}
}

// TestCodeIsAtMost120Columns holds what the linter lll says, without it. The exceptions of lll in
// .golangci.yml are a list that can only shrink, as the one of comments.
func TestCodeIsAtMost120Columns(t *testing.T) {
	config := read(t, linter)
	exception := regexp.MustCompile(`(?m)^ +- \{path: '\^(\S+)/\[\^/\]\+\$', linters: \[lll\]\}\n`)
	var allowed []string
	for _, m := range exception.FindAllStringSubmatch(config, -1) {
		allowed = append(allowed, m[1])
	}
	left := checkColumns(t, allowed, longCode)
	if *update {
		write(t, linter, exception.ReplaceAllStringFunc(config, func(line string) string {
			if slices.Contains(left, exception.FindStringSubmatch(line)[1]) {
				return line
			}
			return ""
		}))
	}
}

// checkColumns returns the allowed packages in which find finds lines. Lines in others are errors,
// and so is an allowed package without any.
func checkColumns(t *testing.T, allowed []string, find func(source string) []int) []string {
	t.Helper()
	long := map[string]int{}
	files(t, ".go", func(name string) {
		switch top, _, _ := strings.Cut(name, "/"); top {
		case "cmd", "internal", "test":
		default:
			return
		}
		pkg := path.Dir(name)
		for _, line := range find(read(t, name)) {
			long[pkg]++
			if !slices.Contains(allowed, pkg) {
				assert.Fail(t, "too long", "%s:%d", name, line)
			}
		}
	})
	var left []string
	for _, pkg := range slices.Sorted(maps.Keys(long)) {
		if slices.Contains(allowed, pkg) {
			left = append(left, pkg)
			t.Logf("not done yet: %s has %d lines that are too long", pkg, long[pkg])
		}
	}
	if !*update {
		for _, pkg := range allowed {
			assert.Contains(t, left, pkg, "it is done; take it out of the list with -update")
		}
	}
	return left
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// longComments returns the lines of comments that are longer than a comment may be.
func longComments(source string) []int {
	if generated.MatchString(source) {
		return nil
	}
	lines := strings.Split(source, "\n")
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, []byte(source), nil, scanner.ScanComments)
	var long []int
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			return long
		}
		if kind != token.COMMENT {
			continue
		}
		first := file.Line(pos)
		for n := first; n <= first+strings.Count(text, "\n"); n++ {
			line := lines[n-1]
			isComment := n > first || strings.HasPrefix(strings.TrimSpace(line), "/")
			if isComment && columns(line) > commentLimit(strings.TrimSpace(line)) {
				long = append(long, n)
			}
		}
	}
}

// commentLimit returns how many columns a line of a comment may have.
func commentLimit(line string) int {
	text, isLine := strings.CutPrefix(line, "//")
	isDirective := isLine && text != "" && text[0] != ' ' && text[0] != '\t'
	switch {
	case isDirective || strings.Contains(text, "://"):
		return math.MaxInt
	case strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "    "):
		return maxCodeColumns
	}
	return maxColumns
}

// longCode returns the lines that are longer than any may be.
func longCode(source string) []int {
	if generated.MatchString(source) {
		return nil
	}
	var long []int
	for i, line := range strings.Split(source, "\n") {
		if columns(line) > maxCodeColumns && !strings.HasPrefix(line, "//go:") {
			long = append(long, i+1)
		}
	}
	return long
}

// columns returns the width of a line, in which a tab has four columns.
func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), []byte(text), 0o644))
}
