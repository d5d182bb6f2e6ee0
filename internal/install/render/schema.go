package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

// schemaFile is the name of a chart's schema. It has no references to others.
const schemaFile = "values.schema.json"

// validate returns what the schema refuses of values, one error for each.
func validate(c *chart.Chart, given map[string]any) error {
	values, err := util.CoalesceValues(c, given)
	if err != nil {
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(c.Schema))
	if err != nil {
		return fmt.Errorf("the schema of the chart %s: %w", c.Name(), err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(schemaFile, document); err != nil {
		return fmt.Errorf("the schema of the chart %s: %w", c.Name(), err)
	}
	schema, err := compiler.Compile(schemaFile)
	if err != nil {
		return fmt.Errorf("the schema of the chart %s: %w", c.Name(), err)
	}
	var refused *jsonschema.ValidationError
	err = schema.Validate(map[string]any(values))
	if !errors.As(err, &refused) {
		return err
	}
	r := refusal{values: values, properties: properties(document)}
	r.collect(refused)
	slices.Sort(r.lines)
	return errors.New(strings.Join(slices.Compact(r.lines), "\n"))
}

// refusal is what is wrong with values.
type refusal struct {
	values     map[string]any
	properties map[string][]string // the known names below each path
	lines      []string
}

func (r *refusal) collect(e *jsonschema.ValidationError) {
	for _, cause := range e.Causes {
		r.collect(cause)
	}
	if len(e.Causes) > 0 {
		return
	}
	path := strings.Join(e.InstanceLocation, ".")
	if unknown, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
		for _, name := range unknown.Properties {
			r.lines = append(r.lines, fmt.Sprintf("%s: there is no such value; want %s",
				join(path, name), r.nearest(path, name)))
		}
		return
	}
	r.lines = append(r.lines, fmt.Sprintf("%s = %s: want %s", path, r.at(e.InstanceLocation), want(e.ErrorKind)))
}

// want says what a value has to be.
func want(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return strings.Join(each(k.Want, typeNames), " or ")
	case *kind.Enum:
		var words []string
		for _, w := range k.Want {
			words = append(words, fmt.Sprintf("%q", w))
		}
		return "one of " + strings.Join(words, ", ")
	case *kind.Minimum:
		return k.Want.RatString() + " or more"
	case *kind.Maximum:
		return k.Want.RatString() + " or less"
	case *kind.Pattern:
		return "text of the form " + k.Want
	}
	return "what the chart's values.schema.json allows"
}

var typeNames = map[string]string{
	"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
	"object": "an object", "array": "a list", "null": "nothing",
}

func each(words []string, names map[string]string) []string {
	var out []string
	for _, w := range words {
		out = append(out, names[w])
	}
	return out
}

// at returns the value under a path, as JSON.
func (r *refusal) at(location []string) string {
	var value any = r.values
	for _, key := range location {
		switch in := value.(type) {
		case map[string]any:
			value = in[key]
		default:
			return "…"
		}
	}
	text, err := json.Marshal(value)
	if err != nil || len(text) > 60 {
		return "…"
	}
	return string(text)
}

// nearest names the known value that a wrong name probably means, or all of them.
func (r *refusal) nearest(path, name string) string {
	known := r.properties[path]
	best, least := "", len(name)/2+1
	for _, k := range known {
		if d := distance(strings.ToLower(k), strings.ToLower(name)); d < least {
			best, least = k, d
		}
	}
	if best != "" {
		return join(path, best)
	}
	return "one of " + strings.Join(known, ", ")
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// distance is the number of letters that are inserted, removed or replaced between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// properties returns the names that a schema knows, below the path of each object.
func properties(schema any) map[string][]string {
	all := map[string][]string{}
	var visit func(path string, node any)
	visit = func(path string, node any) {
		of, _ := node.(map[string]any)
		below, _ := of["properties"].(map[string]any)
		for name, sub := range below {
			if of, _ := sub.(map[string]any); name == internalDefaults || isOfIstio(of) {
				continue
			}
			all[path] = append(all[path], name)
			visit(join(path, name), sub)
		}
		slices.Sort(all[path])
	}
	visit("", schema)
	return all
}
