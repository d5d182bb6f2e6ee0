package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Style is how a text is shown.
type Style uint8

// The styles. Each means one thing everywhere: what is fine, what needs a look, what is broken.
const (
	Plain Style = iota
	Bold
	Faint
	Good
	Warn
	Bad
)

// sgr are the ANSI codes (ECMA-48, SGR) of the styles.
var sgr = [...]string{Plain: "", Bold: "1", Faint: "2", Good: "32", Warn: "33", Bad: "31"}

// fallbackWidth is the width if the window's is unknown.
const fallbackWidth = 100

// Writer writes whole lines. It is safe for concurrent use: lines do not mix, nor with the progress
// line. Whatever it writes is printable: names and messages of proxies and objects can neither move
// the cursor nor change what stands above.
type Writer struct {
	mu       sync.Mutex
	out      io.Writer
	file     *os.File // set on a terminal
	columns  int      // the width that $COLUMNS says; 0 without it
	colours  bool
	progress string // what stands in the last line at present
}

// New returns a Writer. On a terminal it uses colours, unless NO_COLOR (no-color.org) is set or
// TERM is dumb. COLUMNS is the width of a window, also where there is none.
func New(out io.Writer, getenv func(string) string) *Writer {
	w := &Writer{out: out}
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 {
		w.columns = n
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		w.file = f
		w.colours = coloured(getenv)
	}
	return w
}

// coloured tells whether a terminal gets colours.
func coloured(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Width returns the window's width in columns.
func (w *Writer) Width() int {
	if w.columns > 0 {
		return w.columns
	}
	if w.file == nil {
		return fallbackWidth
	}
	width, _, err := term.GetSize(int(w.file.Fd()))
	if err != nil || width <= 0 {
		return fallbackWidth
	}
	return width
}

// bounded reports whether lines have to fit into a width.
func (w *Writer) bounded() bool { return w.file != nil || w.columns > 0 }

// Paint returns text as one line with a style, if colours are on. The result is for Line alone.
func (w *Writer) Paint(s Style, text string) string {
	text = clean(text)
	if !w.colours || s == Plain || text == "" {
		return text
	}
	return string(firstStyle+rune(s)) + text + string(endOfStyle)
}

// Line writes one line above the progress line. A value with line breaks makes it several.
func (w *Writer) Line(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.erase()
	_, _ = io.WriteString(w.out, written(fmt.Sprintf(format, args...))+"\n") // there is nobody else to tell
	w.draw()
}

// Paragraph writes a prefix and a styled text. A text that is too long for the window is broken
// between words, and the further lines are indented by the width of the prefix. To a file or a pipe
// it stays one line.
func (w *Writer) Paragraph(prefix string, s Style, text string) {
	prefix, text = clean(prefix), clean(text)
	lines := []string{text}
	indent := utf8.RuneCountInString(prefix)
	if w.bounded() {
		lines = Wrap(text, w.Width()-indent)
	}
	for i, line := range lines {
		if i > 0 {
			prefix = strings.Repeat(" ", indent)
		}
		lines[i] = prefix + w.Paint(s, line)
	}
	w.Line("%s", strings.Join(lines, "\n"))
}

// Wrap breaks text between words into lines of at most the given columns. A word that is longer has
// a line of its own.
func Wrap(text string, columns int) []string {
	if utf8.RuneCountInString(text) <= columns {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.SplitSeq(text, " ") {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// Progress shows what is being done in a line that the next call replaces. An empty text removes
// it. Where lines cannot be replaced, each text is a line of its own, unless it differs from the
// last only in digits (a count).
func (w *Writer) Progress(text string) {
	text = clean(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		if text != "" && withoutDigits(text) != withoutDigits(w.progress) {
			_, _ = fmt.Fprintln(w.out, text)
		}
		w.progress = text
		return
	}
	w.erase()
	w.progress = text
	w.draw()
}

// barWidth is how many characters a bar has between its brackets.
const barWidth = 24

// Bar shows the progress of something that is done in steps, as Progress does. On a terminal a bar
// precedes the count. With all = 0 the end is unknown, and only the label is shown.
func (w *Writer) Bar(label string, done, all int) {
	if all <= 0 {
		w.Progress(label)
		return
	}
	text := fmt.Sprintf("%s: %d of %d", label, done, all)
	if w.file != nil {
		full := min(max(done, 0), all) * barWidth / all
		text = "[" + strings.Repeat("#", full) + strings.Repeat(".", barWidth-full) + "] " + text
	}
	w.Progress(text)
}

func withoutDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
}

func (w *Writer) erase() {
	if w.file != nil && w.progress != "" {
		_, _ = io.WriteString(w.out, "\r\x1b[K")
	}
}

func (w *Writer) draw() {
	if w.file != nil && w.progress != "" {
		_, _ = io.WriteString(w.out, cut(w.progress, w.Width()-1))
	}
}

// cut shortens text to a number of columns. An ellipsis stands for what is missing.
func cut(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	if columns <= 1 {
		return "…"
	}
	return string([]rune(text)[:columns-1]) + "…"
}
