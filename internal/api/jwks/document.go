package jwks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Entry is what has been fetched of one set of keys.
type Entry struct {
	// URI is where it was fetched.
	URI string
	// Keys is the set in its canonical form; empty if it has never been fetched.
	Keys string
	// Error says why it could not be fetched; beside Keys, why newer ones are not in force.
	Error string
}

// entryJSON is an Entry as it stands in a document.
type entryJSON struct {
	URI   string          `json:"uri"`
	JWKS  json.RawMessage `json:"jwks,omitempty"`
	Error string          `json:"error,omitempty"`
}

// Encode returns the data of a ConfigMap with these entries. The name of a value is a hash of the
// URI, since few URIs can be names.
func Encode(entries []Entry) map[string]string {
	data := make(map[string]string, len(entries))
	for _, e := range entries {
		out := entryJSON{URI: e.URI, Error: e.Error}
		if e.Keys != "" {
			out.JWKS = json.RawMessage(e.Keys)
		}
		if text, err := json.Marshal(out); err == nil {
			data[nameOf(e.URI)] = string(text)
		}
	}
	return data
}

// Decode reads the data of such a ConfigMap, sorted by URI. It returns the names of the values that
// cannot be read, with the reason.
func Decode(data map[string]string) (entries []Entry, bad map[string]error) {
	bad = map[string]error{}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		e, err := decodeEntry(name, data[name])
		if err != nil {
			bad[name] = err
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.URI, b.URI) })
	return entries, bad
}

func decodeEntry(name, text string) (Entry, error) {
	var in entryJSON
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return Entry{}, fmt.Errorf("is no entry: %w", err)
	}
	if name != nameOf(in.URI) {
		return Entry{}, fmt.Errorf("is not the name of the entry for %q", in.URI)
	}
	out := Entry{URI: in.URI, Error: in.Error}
	if len(in.JWKS) > 0 {
		keys, err := ReadPublic(in.JWKS)
		if err != nil {
			return Entry{}, err
		}
		out.Keys = keys
	}
	return out, nil
}

func nameOf(uri string) string {
	sum := sha256.Sum256([]byte(uri))
	return hex.EncodeToString(sum[:16]) + ".json"
}
