package docs

import (
	"go/scanner"
	"go/token"
	"math"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// TestCommentsAreAtMost100Columns: a tab has four columns. Code blocks, tables and drawings, which
// are indented in the comment, have the columns of code. Directives and lines with a URL may be
// longer. A comment behind code belongs to a line of code.
func TestCommentsAreAtMost100Columns(t *testing.T) { checkColumns(t, longComments) }

// TestCodeIsAtMost120Columns holds what the linter lll says, without it.
func TestCodeIsAtMost120Columns(t *testing.T) { checkColumns(t, longCode) }

// checkColumns reports the lines that find finds.
func checkColumns(t *testing.T, find func(source string) []int) {
	t.Helper()
	files(t, ".go", func(name string) {
		switch top, _, _ := strings.Cut(name, "/"); top {
		case "cmd", "internal", "test":
		default:
			return
		}
		for _, line := range find(read(t, name)) {
			assert.Fail(t, "too long", "%s:%d", name, line)
		}
	})
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
		if columns(line) > maxCodeColumns && !mayBeLonger(line) {
			long = append(long, i+1)
		}
	}
	return long
}

// mayBeLonger reports whether a line of code is a directive or the first of a raw string literal,
// which cannot be broken without another meaning: most are objects of tests in JSON or YAML.
func mayBeLonger(line string) bool {
	return strings.HasPrefix(line, "//go:") || strings.HasPrefix(strings.TrimLeft(line, "\t"), "`")
}

// columns returns the width of a line, in which a tab has four columns.
func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}
