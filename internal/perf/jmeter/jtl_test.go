package jmeter

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const header = "timeStamp,elapsed,label,responseCode,success\n"

// read returns all requests of a file.
func read(text string) (all []sample, cutAt int, err error) {
	cutAt, err = readJTL(strings.NewReader(text), func(s sample) { all = append(all, s) })
	return all, cutAt, err
}

func TestReadJTL(t *testing.T) {
	text, err := os.ReadFile("testdata/a.jtl")
	require.NoError(t, err)
	all, cutAt, err := read(string(text))
	require.NoError(t, err)
	require.Zero(t, cutAt)
	require.Equal(t, []sample{
		{transaction: "Login", start: 1796000000000, elapsed: 10 * time.Millisecond},
		{transaction: "QueryFlight", start: 1796000000100, elapsed: 20 * time.Millisecond},
		{transaction: "QueryFlight", start: 1796000000200, elapsed: 30 * time.Millisecond},
		{
			transaction: "QueryFlight", start: 1796000000300, elapsed: 700 * time.Millisecond, failed: true,
			why: "QueryFlight: 503 Service Unavailable",
		},
	}, all)
}

func TestColumnsStandInAnyOrder(t *testing.T) {
	all, _, err := read("label,success,timeStamp,Latency,elapsed\nLogin,TRUE,5,1,2\nLogin,false,6,1,3\n")
	require.NoError(t, err)
	require.Equal(t, []sample{
		{transaction: "Login", start: 5, elapsed: 2 * time.Millisecond},
		{transaction: "Login", start: 6, elapsed: 3 * time.Millisecond, failed: true, why: "Login:"},
	}, all)
}

// TestJoinedFilesAreOne: cat a.jtl b.jtl has the header twice.
func TestJoinedFilesAreOne(t *testing.T) {
	all, cutAt, err := read(header + "5,1,Login,200,true\n" + header + "6,1,Login,200,true\n")
	require.NoError(t, err)
	require.Zero(t, cutAt)
	require.Len(t, all, 2)
}

// TestALineThatIsCutOffIsNotCounted wherever the file ends: in a number, a text, or after the last
// column, which may be longer.
func TestALineThatIsCutOffIsNotCounted(t *testing.T) {
	whole := header + "5,1,Login,200,true\n"
	last := "7,23,\"a \"\"b\"\"\n, c\",200,true\n"
	for end := 1; end < len(last); end++ {
		all, cutAt, err := read(whole + last[:end])
		require.NoError(t, err, "%q", last[:end])
		require.Equal(t, 3, cutAt, "%q", last[:end])
		require.Len(t, all, 1, "%q", last[:end])
	}
	all, cutAt, err := read(whole + last)
	require.NoError(t, err)
	require.Zero(t, cutAt)
	require.Len(t, all, 2)
}

func TestWhatIsNoJTLIsToldWithWhatWouldBe(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "it is empty: want a JTL file, as jmeter -n -t PLAN -l FILE writes it",
		`<?xml version="1.0"?>`: "it is XML: want a JTL file in CSV (jmeter -Jjmeter.save.saveservice.output_format=csv)",
		"5,1,Login,200,true\n": "line 1: there is no column timeStamp: want a JTL file in CSV with the names of its " +
			"columns (jmeter -Jjmeter.save.saveservice.print_field_names=true)",
		"timeStamp,elapsed,label": "line 1: there is no column success: want a JTL file in CSV with the names of its " +
			"columns (jmeter -Jjmeter.save.saveservice.print_field_names=true)",
		"a\"b\n": "line 1: bare \" in non-quoted-field",
		header + "2026-11-29,1,Login,200,true\n": `line 2: timeStamp "2026-11-29": want milliseconds since 1970 ` +
			"(jmeter -Jjmeter.save.saveservice.timestamp_format=ms)",
		header + "5,-1,Login,200,true\n":       `line 2: elapsed "-1": want milliseconds, 0 or more`,
		header + "5,1,Login,200,yes\n":         `line 2: success "yes": want true or false`,
		header + "5,1,Login\n6,1,a,200,true\n": "line 2: wrong number of fields",
		header + "5,1,Login\n":                 "line 2: wrong number of fields",
	} {
		_, _, err := read(text)
		require.EqualError(t, err, want, "%q", text)
	}
}
