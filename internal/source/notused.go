package source

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// NotUsed returns the problem of an object of a kind that exists and that Lateen does not read. It
// is an error for kinds that protect, because whoever writes an object of one relies on it.
func NotUsed(object Key, apiVersion string) Problem {
	p := Problem{
		Object:  object,
		Message: fmt.Sprintf("%s of %s is not used by Lateen (yet)", object.Kind.Name(), apiVersion),
	}
	if kinds.UnreadProtects(object.Kind) {
		p.Severity = Error
		p.Message += ": it is not enforced"
	}
	return p
}
