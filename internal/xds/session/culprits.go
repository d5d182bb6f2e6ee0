package session

import (
	"strings"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// findCulprits finds out which of a refused response's resources caused the refusal. Either that is
// certain: then it returns culprits and innocent resources. Or it is not: then it returns groups to
// be sent again by themselves, each smaller than the response was.
//
// Envoy has no field for the culprit. It names clusters and listeners in lists of a fixed form,
// listeners on a line each:
//
//	Error adding/updating cluster(s) NAME: why, NAME2: why
//	Error adding/updating listener(s) NAME: why
//	NAME2: why
//
// Other types it names in free text, or not at all. A name in free text only makes a suspect: it
// may be there for another reason.
func findCulprits(
	message string, upserts []*resource.Resource,
) (culprits, innocent []*resource.Resource, groups [][]*resource.Resource) {
	if len(upserts) == 1 {
		return upserts, nil, nil
	}
	listed, rest := partition(upserts, func(name string) bool { return isListed(message, name) })
	if len(listed) > 0 {
		return listed, rest, nil
	}
	suspects, rest := partition(upserts, func(name string) bool { return isMentioned(message, name) })
	if len(suspects) == 0 || len(rest) == 0 {
		half := len(upserts) / 2
		suspects, rest = upserts[:half], upserts[half:]
	}
	return nil, nil, [][]*resource.Resource{suspects, rest}
}

func partition(all []*resource.Resource, is func(name string) bool) (yes, no []*resource.Resource) {
	for _, r := range all {
		if is(r.Name()) {
			yes = append(yes, r)
		} else {
			no = append(no, r)
		}
	}
	return yes, no
}

// isListed reports whether the message names the resource in Envoy's list.
func isListed(message, name string) bool {
	for _, prefix := range []string{"Error adding/updating cluster(s) ", "Error adding/updating listener(s) "} {
		if list, ok := strings.CutPrefix(message, prefix); ok {
			return strings.HasPrefix(list, name+": ") ||
				strings.Contains(list, ", "+name+": ") || strings.Contains(list, "\n"+name+": ")
		}
	}
	return false
}

// isMentioned reports whether the name stands in the message as a word of its own.
func isMentioned(message, name string) bool {
	if name == "" {
		return false
	}
	for rest := message; ; {
		i := strings.Index(rest, name)
		if i < 0 {
			return false
		}
		before, after := rest[:i], rest[i+len(name):]
		if !endsInName(before) && !beginsInName(after) {
			return true
		}
		rest = rest[i+1:]
	}
}

// nameBytes are those of resource names, other than letters and digits.
const nameBytes = "_-|.:/*"

func inName(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || strings.IndexByte(nameBytes, b) >= 0
}

func endsInName(s string) bool { return s != "" && inName(s[len(s)-1]) }

// beginsInName reports whether a name goes on. A full stop or colon before a space ends a sentence
// instead.
func beginsInName(s string) bool {
	if s == "" || !inName(s[0]) {
		return false
	}
	if s[0] == '.' || s[0] == ':' {
		return len(s) > 1 && s[1] != ' '
	}
	return true
}
