package convert

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnicodeClassesThatEnvoyRefusesAreFound has expressions that Go takes, and the class in them
// for which Envoy would refuse them.
func TestUnicodeClassesThatEnvoyRefusesAreFound(t *testing.T) {
	for text, want := range map[string]string{
		`abc`:                            "",
		`\\p{Letter}`:                    "",
		`\Q\p{Letter}\E\d`:               "",
		`\pL\PN\p{Lu}\p{^Greek}`:         "",
		`[\p{Latin}\p{Any}]\.`:           "",
		`/\p{Letter}+`:                   "Letter",
		`[a\P{^greek}]`:                  "greek",
		`\Qa\E\pL\p{Cn}`:                 "Cn",
		`a{2}\p{LC}`:                     "LC",
		`\x{10FFFF}\p{uppercase_letter}`: "uppercase_letter",
	} {
		_, err := regexp.Compile(text)
		require.NoError(t, err)
		require.Equal(t, want, unknownClass(text), text)
	}
}
