package source

import (
	"fmt"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// NotUsed returns the problem of an object of a kind that exists and that Lateen does not read. It
// is an error for kinds that protect, because whoever writes an object of one relies on it.
func NotUsed(object Key, apiVersion string) Problem {
	kind, _, _ := strings.Cut(string(object.Kind), ".") // without the group that tells some apart
	p := Problem{
		Object:  object,
		Message: fmt.Sprintf("%s of %s is not used by Lateen (yet)", kind, apiVersion),
	}
	if kinds.UnreadProtects(object.Kind) {
		p.Severity = Error
		p.Message += ": it is not enforced"
	}
	return p
}
