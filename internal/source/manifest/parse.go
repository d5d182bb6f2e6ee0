package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// syntaxError says why and where a text is no YAML or JSON.
type syntaxError struct {
	line   int
	reason string
	want   string
}

// parse splits a file into the nodes of its documents. With a syntax error it also returns the
// documents before it.
func parse(name string, data []byte) ([]*yaml.Node, *syntaxError) {
	if strings.HasSuffix(name, ".json") {
		return parseJSON(data)
	}
	documents, err := parseYAML(data)
	if err == nil {
		return documents, nil
	}
	reason, line := yamlReason(err)
	if exact := locate(data, reason); exact > 0 {
		line = exact
	}
	return documents, &syntaxError{line: line, reason: reason, want: yamlHints[reason]}
}

func parseYAML(data []byte) (documents []*yaml.Node, err error) {
	defer func() { // the parser is not ours: a panic in it must not end the process
		if fault := recover(); fault != nil {
			err = fmt.Errorf("yaml: the parser failed: %v", fault)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var n yaml.Node
		switch err := decoder.Decode(&n); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return documents, err
		}
		if len(n.Content) > 0 {
			documents = append(documents, n.Content[0])
		}
	}
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// yamlReason splits the parser's message into reason and line. The parser names no line for an
// error on the first one.
func yamlReason(err error) (reason string, line int) {
	reason = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(reason); m != nil {
		line, _ = strconv.Atoi(m[1])
		return reason[len(m[0]):], line
	}
	return reason, 1
}

// yamlHints say how to fix the parser's most frequent complaints.
var yamlHints = map[string]string{
	"mapping values are not allowed in this context": `a line indented like its neighbours, ` +
		`and quotes around a value that has ": " in it`,
	"found character that cannot start any token": "spaces, not tabs, for indentation, " +
		"and quotes around a value that begins with @, ` or %",
	"did not find expected key":           "lines of one map indented alike",
	"found unexpected end of stream":      "the closing quote",
	"did not find expected ',' or ']'":    "the closing ] of the list",
	"did not find expected ',' or '}'":    "the closing } of the map",
	"did not find expected '-' indicator": `entries of one list indented alike, each begun by "- "`,
	"did not find expected node content": "a value; quotes around one " +
		"that begins with { or [ and is no map or list",
}

// locate finds the line of a syntax error, because the parser's line is often that of the enclosing
// map. It looks for the shortest run of first lines that has the same error. It parses log(lines)
// times, so large files keep the parser's line.
func locate(data []byte, reason string) int {
	const largest = 256 << 10
	if len(data) > largest {
		return 0
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	fails := func(count int) bool {
		_, err := parseYAML(bytes.Join(lines[:count], nil))
		if err == nil {
			return false
		}
		same, _ := yamlReason(err)
		return same == reason
	}
	low, high := 0, len(lines) // fails(high), not fails(low)
	for high-low > 1 {
		if middle := (low + high) / 2; fails(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// resolve follows aliases. Documents whose aliases form a cycle were refused before.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// maxExpanded is how many values a document may have once its aliases are expanded. A YAML bomb has
// billions. A manifest of the largest size has fewer than this without aliases.
const maxExpanded = 1 << 22

// hasSafeAliases reports whether the aliases of a document form no cycle and do not expand it
// beyond maxExpanded.
func hasSafeAliases(document *yaml.Node) bool {
	size, ok := untrusted.Expanded(document, maxExpanded)
	return ok && size <= maxExpanded
}
