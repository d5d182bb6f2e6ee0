package keysets

import (
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
)

// set is a set of keys that the mesh wants.
type set struct {
	uri     string
	timeout time.Duration
	namedBy map[string]int // how many policies name it, by namespace
	entry   jwks.Entry     // what is known; with neither Keys nor Error, nothing yet
	due     time.Time
	failed  int // attempts in a row
	busy    bool

	// payer is the namespace whose share the set takes, one of those that name it. It is empty
	// while no share has room.
	payer  string
	bytes  int  // of entry, if it has keys
	noRoom bool // for the keys that were fetched last
}

// namespaces returns the namespaces that name the set: the one that pays first, the others sorted.
func (s *set) namespaces() []string {
	list := slices.Sorted(maps.Keys(s.namedBy))
	if i := slices.Index(list, s.payer); i > 0 {
		list = slices.Insert(slices.Delete(list, i, i+1), 0, s.payer)
	}
	return list
}

func (s *set) name(namings []Naming) {
	for _, n := range namings {
		if s.namedBy[n.Namespace] += n.More; s.namedBy[n.Namespace] <= 0 {
			delete(s.namedBy, n.Namespace)
		}
	}
}

// sizeOf returns how many bytes an entry with keys takes in the ConfigMap, at most. Keys in their
// canonical form stand there as they are.
func sizeOf(e jwks.Entry) int { return quoted(e.URI) + len(e.Keys) + frame }

// quoted returns how many bytes a text has as a string of JSON, at most.
func quoted(text string) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c >= utf8.RuneSelf || c == '<' || c == '>' || c == '&':
			n += len(`\u003c`) - 1
		case c == '"' || c == '\\':
			n++
		}
	}
	return n
}
