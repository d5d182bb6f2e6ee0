package policy

import (
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// NormalizePath returns the path that policies compare, without its query.
func NormalizePath(path string, level model.PathNormalization) string {
	if at := strings.IndexAny(path, "?#"); at >= 0 {
		path = path[:at]
	}
	if level == model.NormalizeNone {
		return path
	}
	if level == model.NormalizeDecode {
		path = strings.NewReplacer("%2f", "/", "%2F", "/", "%5c", "\\", "%5C", "\\").Replace(path)
	}
	path = withoutDots(strings.ReplaceAll(unreserved(path), "\\", "/"))
	if level == model.NormalizeMergeSlashes || level == model.NormalizeDecode {
		for strings.Contains(path, "//") {
			path = strings.ReplaceAll(path, "//", "/")
		}
	}
	return path
}

// unreserved decodes what needs no escape: letters, digits, and "-._~" (RFC 3986, 6.2.2.2).
func unreserved(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			c, err := strconv.ParseUint(path[i+1:i+3], 16, 8)
			if err == nil && needsNoEscape(byte(c)) {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

func needsNoEscape(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || strings.IndexByte("-._~", c) >= 0
}

// withoutDots removes the segments "." and "..", the latter with the one before it.
func withoutDots(path string) string {
	var out []string
	segments := strings.Split(path, "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "..":
			if len(out) > 1 {
				out = out[:len(out)-1]
			}
		case s != ".":
			out = append(out, s)
			continue
		}
		if last {
			out = append(out, "")
		}
	}
	return strings.Join(out, "/")
}
