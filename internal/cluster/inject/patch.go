package inject

import (
	"encoding/json"
	"reflect"
	"strings"
)

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch returns the JSON patch from one object to another. A list that differs is replaced as a
// whole.
func patch(from, to object) ([]byte, error) {
	raw, err := json.Marshal(to) // numbers of the same type as those that were read
	if err != nil {
		return nil, err
	}
	to = nil
	if err := json.Unmarshal(raw, &to); err != nil {
		return nil, err
	}
	return json.Marshal(differences("", from, to))
}

func differences(path string, from, to object) []operation {
	out := []operation{}
	for _, key := range sortedKeys(to) {
		at := path + "/" + escaper.Replace(key)
		was, there := from[key]
		before, wasObject := was.(object)
		after, isObject := to[key].(object)
		switch {
		case !there:
			out = append(out, operation{"add", at, to[key]})
		case wasObject && isObject:
			out = append(out, differences(at, before, after)...)
		case !reflect.DeepEqual(was, to[key]):
			out = append(out, operation{"replace", at, to[key]})
		}
	}
	for _, key := range sortedKeys(from) {
		if _, there := to[key]; !there {
			out = append(out, operation{Op: "remove", Path: path + "/" + escaper.Replace(key)})
		}
	}
	return out
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")
