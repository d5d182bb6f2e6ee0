package untrusted

import (
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The largest quantity that is parsed, as it is written. No real amount is longer, or has an
// exponent of three digits.
const (
	maxQuantity = 64
	maxExponent = 2 // digits
)

// ErrCostly is the error of a quantity that would take long to parse.
var ErrCostly = errors.New("the number is too large")

// Quantity parses an amount in the notation of Kubernetes, unless it is one that takes long.
func Quantity(text string) (resource.Quantity, error) {
	if isCostly(text) {
		return resource.Quantity{}, ErrCostly
	}
	return resource.ParseQuantity(text)
}

// isCostly reports whether resource.ParseQuantity may take long for a text. What it refuses at once
// is not costly.
func isCostly[T string | []byte](text T) bool {
	i := 0
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r') {
		i++ // decoders trim it
	}
	begin := i
	for i < len(text) && (isDigit(text[i]) || text[i] == '.' || text[i] == '+' || text[i] == '-') {
		i++
	}
	if i-begin > maxQuantity {
		return true
	}
	exponent := 0
	for ; i < len(text) && exponent <= maxExponent; i++ {
		switch {
		case isDigit(text[i]):
			exponent++
		case strings.IndexByte("eEinumkKMGTP+-", text[i]) < 0:
			return false
		}
	}
	return exponent > maxExponent
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
