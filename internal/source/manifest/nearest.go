package manifest

import (
	"strings"
)

// nearest returns the candidate that was most likely meant, or "" if none is close. Among equally
// close candidates the first wins.
func nearest(word string, candidates []string) string {
	folded := fold(word)
	best, bestDistance := "", max(1, len(folded)/3)+1
	for _, c := range candidates {
		if d := distance(folded, fold(c), bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// fold makes words equal that differ only in case or separators: match_labels and matchLabels.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// distance returns the Damerau-Levenshtein distance of a and b, or limit if it is not smaller.
// Words are short, so the quadratic table is small. Very long words are not compared.
func distance(a, b string, limit int) int {
	const longest = 100
	if gap := len(a) - len(b); gap >= limit || -gap >= limit || len(a) > longest {
		return limit
	}
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return min(last[len(b)], limit)
}

// oneOf lists the valid values.
func oneOf(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return "one of " + strings.Join(values, ", ")
}
