package terminal

import (
	"strings"
	"unicode"
)

// A style stands in a text as a noncharacter of Unicode until the text is written: escape sequences
// that somebody else put into a name or a message are told apart by that, and never written.
const (
	firstStyle = '\uFDD0'
	endOfStyle = '\uFDEF'
)

// clean returns a value of a proxy or an object as one line that a terminal shows and does not
// obey: without control characters (escape sequences begin with one), and without characters of
// format, which turn the direction of a text or hide parts of it. What breaks lines becomes a
// space.
func clean(value string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r >= firstStyle && r <= endOfStyle {
			return -1
		}
		return printable(r)
	}, value)
}

// printable returns a character that does nothing to a terminal, or -1 for none. Bytes that are no
// UTF-8 arrive as replacement characters.
func printable(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r == '\u2028' || r == '\u2029': // separators of lines and paragraphs
		return ' '
	case unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r):
		return -1
	}
	return r
}

// written returns lines as they are written: printable, and with the escape sequences of styles.
func written(lines string) string {
	var b strings.Builder
	b.Grow(len(lines))
	for _, r := range lines {
		switch {
		case r == endOfStyle:
			b.WriteString("\x1b[0m")
		case r >= firstStyle && r < endOfStyle:
			if s := int(r - firstStyle); s < len(sgr) {
				b.WriteString("\x1b[" + sgr[s] + "m")
			}
		default:
			if r = printable(r); r >= 0 {
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}
