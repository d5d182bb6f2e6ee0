package terminal

import "unicode/utf8"

const ellipsis = "…"

// shorten cuts the texts of a column to a number of columns. The ellipsis stands where it leaves
// the most texts distinct: in the middle if that is enough, otherwise further left or right, and
// last behind and before what follows the beginning that all have in common.
func shorten(texts []string, columns int) []string {
	want := distinct(texts)
	best, most := []string(nil), -1
	try := func(one func([]rune) string) (enough bool) {
		out := make([]string, len(texts))
		for i, text := range texts {
			if out[i] = text; utf8.RuneCountInString(text) > columns {
				out[i] = one([]rune(text))
			}
		}
		if n := distinct(out); n > most {
			best, most = out, n
		}
		return most == want
	}
	if columns <= 1 {
		try(func([]rune) string { return ellipsis })
		return best
	}
	kept := columns - 1
	for step := range kept {
		head := kept/2 + (step+1)/2*(1-step%2*2) // the half, and then ever further from it
		if head < 0 || head > kept {
			continue
		}
		if try(func(text []rune) string {
			return string(text[:head]) + ellipsis + string(text[len(text)-kept+head:])
		}) {
			return best
		}
	}
	if skip := commonPrefix(texts, columns); skip > 0 && columns > 2 {
		try(func(text []rune) string {
			rest := text[min(skip, len(text)-columns+1):]
			if len(rest) < columns {
				return ellipsis + string(rest)
			}
			return ellipsis + string(rest[:columns-2]) + ellipsis
		})
	}
	return best
}

func distinct(texts []string) int {
	all := map[string]struct{}{}
	for _, text := range texts {
		all[text] = struct{}{}
	}
	return len(all)
}

// commonPrefix returns how many runes all texts that are too long begin with.
func commonPrefix(texts []string, columns int) int {
	var prefix []rune
	begun := false
	for _, text := range texts {
		runes := []rune(text)
		if len(runes) <= columns {
			continue
		}
		if !begun {
			prefix, begun = runes, true
		}
		n := 0
		for n < len(prefix) && n < len(runes) && prefix[n] == runes[n] {
			n++
		}
		prefix = prefix[:n]
	}
	return len(prefix)
}
