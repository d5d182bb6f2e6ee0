package jmeter

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzReadJTL: a file is read or refused, no line is counted twice, and what is read can be shown.
func FuzzReadJTL(f *testing.F) {
	f.Add([]byte(header + "5,1,Login,200,true\n6,2,\"a\"\"b\",503,false\n"))
	f.Add([]byte(header + "5,1,Login,200,true\n6,2,\"a"))
	f.Add([]byte(header + "8796093022208,8796093022208,Login,200,true\n1,0,Login,200,true\n"))
	f.Add([]byte("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testResults version=\"1.2\">\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all := newTally()
		n := 0
		cutAt, err := readJTL(bytes.NewReader(text), func(s sample) {
			all.add(s)
			n++
		})
		lines := bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r")) + 1
		require.LessOrEqual(t, n, lines)
		require.LessOrEqual(t, cutAt, lines)
		if err != nil {
			require.Zero(t, cutAt)
			return
		}
		s := all.summary("all", all.seconds())
		require.Equal(t, n, s.Requests)
		require.LessOrEqual(t, s.Failed, n)
		require.True(t, s.P50 <= s.P90 && s.P90 <= s.P99 && s.P99 <= s.Max, "%+v", s)
		require.GreaterOrEqual(t, s.Mean, Summary{}.Mean)
		require.NotEmpty(t, Report{All: s, Transactions: []Summary{s}}.Table().Rows)
	})
}
