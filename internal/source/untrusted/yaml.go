package untrusted

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"
)

// YAML decodes YAML into a value, as sigs.k8s.io/yaml does.
func (l Limits) YAML(text string, into any) error {
	raw, err := l.YAMLToJSON(text)
	if err != nil {
		return err
	}
	return l.JSON(raw, into)
}

// YAMLToJSON returns the JSON of a document in YAML.
func (l Limits) YAMLToJSON(text string) ([]byte, error) {
	if err := l.checkYAML(text); err != nil {
		return nil, err
	}
	raw, err := kubeyaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("error converting YAML to JSON: %w", err)
	}
	return raw, nil
}

// checkYAML returns an error if the text may have more values than the limits allow. Each value has
// at least one of the signs that are counted beside it, so there are at most as many values.
func (l Limits) checkYAML(text string) error {
	if err := l.size(len(text)); err != nil {
		return err
	}
	const signs = "\n,:[{?-"
	atMost := 1
	for i := range len(text) {
		if strings.IndexByte(signs, text[i]) >= 0 {
			atMost++
		}
	}
	if atMost > textRoom*l.Values {
		return fmt.Errorf("it has more than %d lines and values; want at most %d values", textRoom*l.Values, l.Values)
	}
	return checkAliases(text, l.Values)
}

// textRoom is how many signs a text may have for each value that it may have: text has them, too.
const textRoom = 4

// checkAliases returns an error if what aliases stand for exceeds a number of values.
func checkAliases(text string, most int) error {
	if !strings.Contains(text, "*") || !strings.Contains(text, "&") {
		return nil // it has none
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var n yaml.Node
		if decoder.Decode(&n) != nil {
			return nil //nolint:nilerr // the end, or what the decoder will say
		}
		if size, ok := Expanded(&n, most); !ok || size > most {
			return ErrAliases
		}
	}
}

// ErrAliases is the error of a document that is too large with its aliases replaced.
var ErrAliases = errors.New("it is too large once its aliases are replaced by what they stand for; " +
	"want fewer aliases (*name), and none that contains itself")

// Expanded returns how many nodes a document has with its aliases replaced, or most+1 if there are
// more. ok is false if aliases form a cycle.
func Expanded(document *yaml.Node, most int) (size int, ok bool) {
	e := expansion{sizes: map[*yaml.Node]int{}, most: most}
	return e.measure(document)
}

// expansion measures documents with their aliases replaced.
type expansion struct {
	sizes map[*yaml.Node]int // -1 while it is being measured
	most  int
}

func (e *expansion) measure(n *yaml.Node) (size int, ok bool) {
	named := n.Anchor != ""
	if named {
		if known, ok := e.sizes[n]; ok {
			return known, known >= 0
		}
		e.sizes[n] = -1
	}
	size = 1
	children := n.Content
	if n.Kind == yaml.AliasNode {
		children = []*yaml.Node{n.Alias}
	}
	for _, child := range children {
		more, ok := e.measure(child)
		size = min(size+more, e.most+1)
		if !ok {
			return 0, false
		}
	}
	if named {
		e.sizes[n] = size
	}
	return size, true
}

// CheckFile returns an error if YAML exceeds the limits of files: 16 MiB, and 4 million values with
// aliases replaced. It is for what administrators write, which may be large.
func CheckFile(text []byte) error {
	l := Limits{Bytes: 16 << 20, Values: 1 << 22}
	if err := l.size(len(text)); err != nil {
		return err
	}
	if bytes.IndexByte(text, '*') < 0 || bytes.IndexByte(text, '&') < 0 {
		return nil
	}
	return checkAliases(string(text), l.Values)
}
