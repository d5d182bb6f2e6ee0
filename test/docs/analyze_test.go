package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// messageCodes are the codes of `istioctl analyze` that are in use (Istio's
// pkg/config/analysis/msg/messages.yaml). Those of a range are one row.
const messageCodes = "0001 0002 0101 0102 0103 0106 0107 0108 0109 0110 0111 0112 0116 0118 0123 0125 0126 0127 0128 " +
	"0129 0130 0131 0132 0133 0134 0135 0136 0137 0138 0139 0140 0141 0142 0143 0144 0145 0146 0147 0148 0149 0150 " +
	"0151 0156 0157 0158 0159 0160 0161 0162 0163 0164 0165 0166 0167 0168 0169 0170 0171 0172 0173 0174 0175 0176 " +
	"0177"

// TestEachMessageOfIstioctlHasARow: and what a row quotes is what the code says.
func TestEachMessageOfIstioctlHasARow(t *testing.T) {
	var sources strings.Builder
	files(t, ".go", func(name string) {
		if strings.HasPrefix(name, "internal/") && !strings.HasSuffix(name, "_test.go") {
			sources.WriteString(read(t, name))
		}
	})
	quoted := regexp.MustCompile("`[^`]+`")
	rows := map[string]bool{}
	for _, line := range strings.Split(read(t, "docs/reference/analyze.md"), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " IST") {
			continue
		}
		rows[strings.Fields(cells[1])[0]] = true
		says := quoted.FindAllString(cells[2], -1)
		require.True(t, len(says) > 0 || strings.TrimSpace(cells[2]) == "—", "%s says nothing", cells[1])
		require.True(t, len(says) > 0 || strings.TrimSpace(cells[3]) != "", "%s says not why", cells[1])
		for _, words := range says {
			require.Contains(t, sources.String(), strings.Trim(words, "`"), "%s", cells[1])
		}
	}
	for _, code := range strings.Fields(messageCodes) {
		require.True(t, rows["IST"+code], "IST%s has no row", code)
	}
	require.Len(t, rows, len(strings.Fields(messageCodes)))
}
