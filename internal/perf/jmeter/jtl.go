package jmeter

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is one request of a JTL file, as JMeter calls it.
type sample struct {
	transaction string
	start       int64 // in milliseconds since 1970
	elapsed     time.Duration
	failed      bool
	why         string // of a failure: code and message of the answer, where the file has them
}

// The columns of a JTL file that have to be there, as JMeter names them.
const (
	startColumn   = "timeStamp"
	elapsedColumn = "elapsed"
	labelColumn   = "label"
	successColumn = "success"
)

// Reasons why a file cannot be read.
var (
	errEmpty = errors.New("it is empty: want a JTL file, as jmeter -n -t PLAN -l FILE writes it")
	errXML   = errors.New("it is XML: want a JTL file in CSV (jmeter -Jjmeter.save.saveservice.output_format=csv)")
	errStart = errors.New("want milliseconds since 1970 (jmeter -Jjmeter.save.saveservice.timestamp_format=ms)")
)

// xmlStart is what a JTL file in XML starts with.
const xmlStart = "<?xml"

// maxMillis bounds times, so that sums of them stay in range.
const maxMillis = 1 << 43

// readJTL calls each for every request of a JTL file in CSV. A JMeter that was ended leaves a file
// whose last line is cut off: cutAt is the number of that line, which is not counted, else 0.
func readJTL(in io.Reader, each func(sample)) (cutAt int, err error) {
	buffered := bufio.NewReader(in)
	if start, err := buffered.Peek(len(xmlStart)); err == nil && string(start) == xmlStart {
		return 0, errXML
	}
	end := &tail{in: buffered}
	rows := csv.NewReader(end)
	rows.ReuseRecord = true
	of, err := readHeader(rows)
	if err != nil {
		return 0, err
	}
	var last *sample // is counted when it is known that its line is whole
	count := func() {
		if last != nil {
			each(*last)
		}
	}
	for lastLine := 1; ; {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			if end.last != '\n' {
				return lastLine, nil
			}
			count()
			return 0, nil
		}
		line := lineOf(rows, err)
		if err == nil && slices.Equal(row, of.header) {
			continue // of files that were joined
		}
		var s sample
		if err == nil {
			s, err = of.sample(row)
		}
		if err != nil {
			if !isCut(rows, end, err) {
				return 0, fmt.Errorf("line %d: %w", line, plain(err))
			}
			count()
			return line, nil
		}
		count()
		last, lastLine = &s, line
	}
}

// isCut reports whether a line with an error is the last one, and cut off.
func isCut(rows *csv.Reader, end *tail, err error) bool {
	_, after := rows.Read()
	return errors.Is(after, io.EOF) && (end.last != '\n' || errors.Is(err, csv.ErrQuote))
}

// lineOf returns the line in which the row began that was read last.
func lineOf(rows *csv.Reader, err error) int {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return parse.StartLine
	}
	if err != nil {
		return 0
	}
	line, _ := rows.FieldPos(0)
	return line
}

// plain returns an error of CSV without the line, which has been said.
func plain(err error) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return parse.Err
	}
	return err
}

// columns are where a file has its fields. Those that may be missing are -1.
type columns struct {
	header                                       []string
	start, elapsed, label, success, code, reason int
}

func readHeader(rows *csv.Reader) (columns, error) {
	row, err := rows.Read()
	switch {
	case errors.Is(err, io.EOF):
		return columns{}, errEmpty
	case err != nil:
		return columns{}, fmt.Errorf("line 1: %w", plain(err))
	}
	c := columns{header: slices.Clone(row)}
	for name, at := range map[string]*int{
		startColumn: &c.start, elapsedColumn: &c.elapsed, labelColumn: &c.label, successColumn: &c.success,
		"responseCode": &c.code, "responseMessage": &c.reason,
	} {
		*at = slices.Index(row, name)
	}
	for _, name := range []string{startColumn, elapsedColumn, labelColumn, successColumn} {
		if !slices.Contains(row, name) {
			return c, fmt.Errorf("line 1: there is no column %s: want a JTL file in CSV with the names of its columns "+
				"(jmeter -Jjmeter.save.saveservice.print_field_names=true)", name)
		}
	}
	return c, nil
}

// sample reads one row.
func (c columns) sample(row []string) (s sample, err error) {
	s = sample{transaction: strings.Clone(row[c.label])}
	if s.start, err = strconv.ParseInt(row[c.start], 10, 64); err != nil || s.start < 1 || s.start > maxMillis {
		return s, fmt.Errorf("%s %q: %w", startColumn, row[c.start], errStart)
	}
	elapsed, err := strconv.ParseInt(row[c.elapsed], 10, 64)
	if err != nil || elapsed < 0 || elapsed > maxMillis {
		return s, fmt.Errorf("%s %q: want milliseconds, 0 or more", elapsedColumn, row[c.elapsed])
	}
	s.elapsed = time.Duration(elapsed) * time.Millisecond
	switch strings.ToLower(row[c.success]) {
	case "true":
	case "false":
		s.failed, s.why = true, s.transaction+":"
		for _, at := range []int{c.code, c.reason} {
			if at >= 0 && row[at] != "" {
				s.why += " " + row[at]
			}
		}
	default:
		return s, fmt.Errorf("%s %q: want true or false", successColumn, row[c.success])
	}
	return s, nil
}

// tail remembers the last byte that was read.
type tail struct {
	in   io.Reader
	last byte
}

// Read implements io.Reader.
func (t *tail) Read(p []byte) (n int, err error) {
	if n, err = t.in.Read(p); n > 0 {
		t.last = p[n-1]
	}
	return n, err
}
