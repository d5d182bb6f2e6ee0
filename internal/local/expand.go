package local

import "strings"

// expand replaces $(NAME) by the variable's value, as Kubernetes does in command, args and env.
// $$(NAME) stands for the text $(NAME). An undefined name and a lone $ stay as they are.
func expand(s string, lookup func(string) (string, bool)) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		replacement, width := expandAt(s[i:], lookup)
		b.WriteString(replacement)
		s = s[i+width:]
	}
}

// expandAt expands at the start of s, which begins with $ and is longer than that. width is how
// much of s it consumed.
func expandAt(s string, lookup func(string) (string, bool)) (replacement string, width int) {
	switch s[1] {
	case '$':
		return "$", 2
	case '(':
		end := strings.IndexByte(s, ')')
		if end < 0 {
			return s[:2], 2
		}
		if value, ok := lookup(s[2:end]); ok {
			return value, end + 1
		}
		return s[:end+1], end + 1
	default:
		return s[:1], 1
	}
}
