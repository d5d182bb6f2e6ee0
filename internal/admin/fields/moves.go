package fields

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// Moves say where members of lists went that are known by their place, as others came or went.
type Moves []move

// move is of a list. Members before front are where they were, and those from back on moved by so
// many places. Of those between the ones before kept are where they were, changed, and the others
// are gone. All are places of before.
type move struct {
	path              string
	front, back, kept int
	by                int
}

// Follow returns what Texts does, and where members of lists went.
func Follow(before, after string) ([]page.FieldChange, Moves) {
	var from, to any
	if json.Unmarshal([]byte(before), &from) != nil || json.Unmarshal([]byte(after), &to) != nil {
		return nil, nil
	}
	var d diff
	d.compare("", from, to)
	return d.changes, d.moves
}

// Path returns where a field is after the moves, and false if a list on its path lost the member.
func (all Moves) Path(path string) (string, bool) {
	for _, m := range all {
		at, rest, is := m.member(path)
		switch {
		case !is, at < m.front:
		case at >= m.back:
			path = m.path + "[" + strconv.Itoa(at+m.by) + "]" + rest
		case at >= m.kept:
			return path, false
		}
	}
	return path, true
}

// member returns the place of a list's member that a path leads through, and what follows it.
func (m move) member(path string) (at int, rest string, is bool) {
	path, is = strings.CutPrefix(path, m.path+"[")
	if !is {
		return 0, "", false
	}
	place, rest, _ := strings.Cut(path, "]")
	at, err := strconv.Atoi(place)
	return at, rest, err == nil
}
