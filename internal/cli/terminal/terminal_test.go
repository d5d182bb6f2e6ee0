package terminal

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func noEnv(string) string { return "" }

func TestPlainOutput(t *testing.T) {
	var out bytes.Buffer
	w := New(&out, noEnv)
	w.Progress("starting 1 of 2")
	w.Progress("starting 2 of 2")
	w.Line("%s is %s", "pod", w.Paint(Good, "ready"))
	w.Progress("")
	table := Table{Header: []string{"POD", "STATE"}}
	table.Row("a-very-long-name", "Running")
	table.Rows = append(table.Rows, []Cell{{Text: "b"}, {Text: "Crashing", Style: Bad}})
	w.Table(table)
	require.Equal(t, strings.Join([]string{
		"starting 1 of 2",
		"pod is ready",
		"POD               STATE",
		"a-very-long-name  Running",
		"b                 Crashing",
		"",
	}, "\n"), out.String())
}

func TestTerminalOutput(t *testing.T) {
	var out bytes.Buffer
	w := &Writer{out: &out, file: os.Stdin, colours: true} // only its width is asked for
	w.Progress("waiting")
	w.Line("news")
	w.Progress("")
	require.Equal(t, "waiting\r\x1b[Knews\nwaiting\r\x1b[K", out.String())
	out.Reset()
	w.Line("%s", w.Paint(Bad, "no"))
	require.Equal(t, "\x1b[31mno\x1b[0m\n", out.String())
}

// hostile is a text that would clear the screen, name a window, turn a direction, hide itself,
// begin a line and colour what follows.
const hostile = "a\x1b[2J\x1b]0;title\x07b\u009b31m\u202ec\u200bd\r\x00\ue000\ufdd5e\ufdef\u2028f\x7f\xff\n" +
	"no problems in the mesh's objects"

// TestOthersTextIsShownAndNotObeyed writes such a text by each way there is. Our own styles stay.
func TestOthersTextIsShownAndNotObeyed(t *testing.T) {
	const shown = "a[2J]0;titleb31mcd\ue000e f\ufffd no problems in the mesh's objects"
	for _, colours := range []bool{false, true} {
		var out bytes.Buffer
		w := &Writer{out: &out, colours: colours}
		bold, bad, end := "", "", ""
		if colours {
			bold, bad, end = "\x1b[1m", "\x1b[31m", "\x1b[0m"
		}
		written := func(write func()) string {
			out.Reset()
			write()
			return out.String()
		}
		require.Equal(t, bad+shown+end+"\n", written(func() { w.Line("%s", w.Paint(Bad, hostile)) }))
		require.Equal(t, "x "+bad+shown+end+"\n", written(func() { w.Paragraph("x ", Bad, hostile) }))
		require.Equal(t, shown+"\n", written(func() { w.Progress(hostile) }))
		require.Equal(t, bold+"POD"+end+"\n"+bad+shown+end+"\n", written(func() {
			w.Table(Table{Header: []string{"POD"}, Rows: [][]Cell{{{Text: hostile, Style: Bad}}}})
		}))
		require.Equal(t, shown+"\n", written(func() {
			narrow := &Writer{out: &out, columns: 4, colours: colours}
			narrow.Table(Table{Header: []string{"POD", "B"}, Rows: [][]Cell{{{Text: hostile}}}})
		}))
		line := written(func() { w.Line("%s", hostile) })
		require.NotContains(t, strings.ReplaceAll(strings.ReplaceAll(line, "\x1b[0m", ""), "\x1b[31m", ""), "\x1b")
		require.NotRegexp(t, "[\\p{Cf}\u009b\x07\r\x00\x7f]", line)
	}
}

func TestBar(t *testing.T) {
	var out bytes.Buffer
	w := &Writer{out: &out, file: os.Stdin}
	w.Bar("connecting", 1, 4)
	w.Bar("", 0, 0)
	require.Equal(t, "[######..................] connecting: 1 of 4\r\x1b[K", out.String())
	out.Reset()
	plain := New(&out, noEnv)
	plain.Bar("starting", 0, 0)
	plain.Bar("connecting", 1, 4)
	plain.Bar("connecting", 4, 4)
	require.Equal(t, "starting\nconnecting: 1 of 4\n", out.String(), "once for each stage")
}

func TestNoColour(t *testing.T) {
	for _, test := range []struct {
		environment map[string]string
		want        bool
	}{
		{map[string]string{"TERM": "xterm"}, true},
		{map[string]string{"TERM": "dumb"}, false},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
	} {
		getenv := func(name string) string { return test.environment[name] }
		require.Equal(t, test.want, coloured(getenv), test.environment)
	}
}

// at returns an environment with a window of a width.
func at(columns string) func(string) string {
	return func(name string) string { return map[string]string{"COLUMNS": columns}[name] }
}

func TestTableFitsTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 6).Draw(t, "columns")
		row := rapid.SliceOfN(rapid.StringMatching(`[a-zé→]{0,40}`), columns, columns)
		table := Table{Header: row.Draw(t, "header")}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			table.Row(row.Draw(t, "row")...)
		}
		window := rapid.IntRange(columns*(narrowest+gap), 200).Draw(t, "window")
		var out bytes.Buffer
		New(&out, at(strconv.Itoa(window))).Table(table)
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), window)
		}
	})
}

// TestShortenKeepsWhatDiffers: in the middle, at the end, and behind a long beginning in common.
func TestShortenKeepsWhatDiffers(t *testing.T) {
	for _, c := range []struct{ texts, want []string }{
		{[]string{"productpage-v1-7c9d8f6b5-x2x4q.default"}, []string{"product….default"}},
		{
			[]string{"reviews-7c9d8f6b5-x2x4q.ns", "reviews-7c9d8f6b5-abcde.ns"},
			[]string{"reviews…x2x4q.ns", "reviews…abcde.ns"},
		},
		{
			[]string{
				"outbound|9080||reviews.default.svc.cluster.local", "outbound|9080||ratings.default.svc.cluster.local",
			},
			[]string{"…eviews.default…", "…atings.default…"},
		},
		{[]string{"short", "x"}, []string{"short", "x"}},
	} {
		require.Equal(t, c.want, shorten(c.texts, 16))
	}
}

// TestNarrowWindowHasParagraphs: nine columns do not fit into 60.
func TestNarrowWindowHasParagraphs(t *testing.T) {
	table := Table{Header: []string{"PROXY", "TYPE", "MTLS", "CDS", "EDS", "LDS", "RDS", "CONFIG", "REPLICA"}}
	table.Row("a.default", "sidecar", "STRICT", "SYNCED", "SYNCED", "SYNCED", "NOT_SENT", "1.2 kB", "istiod-0")
	var out bytes.Buffer
	New(&out, at("60")).Table(table)
	require.Equal(t, `a.default
  TYPE sidecar  MTLS STRICT  CDS SYNCED  EDS SYNCED
  LDS SYNCED  RDS NOT_SENT  CONFIG 1.2 kB  REPLICA istiod-0
`, out.String())
	out.Reset()
	New(&out, at("80")).Table(table)
	require.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
}

// TestProseIsBrokenBetweenWords, and what stands beside it is whole: it may be a command to copy.
func TestProseIsBrokenBetweenWords(t *testing.T) {
	table := Table{Header: []string{"NAME", "OPEN", "WHAT"}, Prose: LastColumn}
	table.Row("envoy", "lateen dashboard envoy POD.NAMESPACE", "the admin page of a proxy")
	table.Row("debug", "-", "")
	var out bytes.Buffer
	New(&out, at("66")).Table(table)
	require.Equal(t, `NAME   OPEN                                  WHAT
envoy  lateen dashboard envoy POD.NAMESPACE  the admin page of a
                                             proxy
debug  -
`, out.String())
	out.Reset()
	New(&out, at("64")).Table(table)
	require.Equal(t, `envoy
  OPEN lateen dashboard envoy POD.NAMESPACE
  WHAT the admin page of a proxy
debug
  OPEN -  WHAT
`, out.String())
}

// TestCellsOfProseAreBroken in each column, and no word is cut.
func TestCellsOfProseAreBroken(t *testing.T) {
	table := Table{Header: []string{"", "PUBLISHED", "RATIO"}, Prose: AllColumns}
	table.Row("memory of a replica", "1,419 to 1,693 MiB", "1/7")
	var out bytes.Buffer
	New(&out, at("27")).Table(table)
	require.Equal(t, `           PUBLISHED  RATIO
memory of  1,419 to   1/7
a replica  1,693 MiB
`, out.String())
}

func TestShrinkTakesFromTheWidest(t *testing.T) {
	widths := []int{10, 50, 20}
	require.True(t, shrink(widths, []int{6, 6, 6}, 60))
	require.Equal(t, []int{10, 26, 20}, widths)
	require.False(t, shrink(widths, []int{10, 26, 20}, 59))
}

func TestParagraph(t *testing.T) {
	var plain bytes.Buffer
	long := strings.TrimSpace(strings.Repeat("word ", 100))
	New(&plain, noEnv).Paragraph("12:00  ", Bad, long)
	require.Equal(t, "12:00  "+long+"\n", plain.String(), "nothing is broken for a file")

	var out bytes.Buffer
	w := &Writer{out: &out, file: os.Stdin} // whose width nobody knows
	w.Paragraph("12:00  ", Bad, long)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Greater(t, len(lines), 1)
	for _, line := range lines[1:] {
		require.True(t, strings.HasPrefix(line, "       word"), line)
	}
}

func TestWrapKeepsWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-zé→]{1,12} ){0,20}[a-z]{1,30}`).Draw(t, "text")
		columns := rapid.IntRange(1, 60).Draw(t, "columns")
		lines := Wrap(text, columns)
		require.Equal(t, text, strings.Join(lines, " "))
		for _, line := range lines {
			if strings.Contains(line, " ") {
				require.LessOrEqual(t, utf8.RuneCountInString(line), columns)
			}
		}
	})
}
