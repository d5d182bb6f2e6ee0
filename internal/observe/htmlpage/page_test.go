package htmlpage

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheChartLibraryIsThePublishedOne: the checksum is that of dist/echarts.common.min.js in the
// npm package echarts 6.1.0.
func TestTheChartLibraryIsThePublishedOne(t *testing.T) {
	content, err := assets.ReadFile("assets/echarts.common.min.js")
	require.NoError(t, err)
	require.Equal(t, "61f13280aba3161f77fc801bf5f9c786f55f10432153a0683fc5cc0700b013d5",
		fmt.Sprintf("%x", sha256.Sum256(content)))
}
