package manifest

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// threeDocuments is a file of ordinary size.
func threeDocuments(tb testing.TB) []byte {
	form, err := os.ReadFile("testdata/three.yaml") // with a place for a number
	require.NoError(tb, err)
	return fmt.Appendf(nil, string(form), 1)
}

func BenchmarkRead(b *testing.B) {
	data := threeDocuments(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if documents, problems := Read("reviews.yaml", data); len(documents) != 3 || len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}
