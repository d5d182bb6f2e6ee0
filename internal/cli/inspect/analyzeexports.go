package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// exports are the namespaces that there are, and the objects that name some.
type exports struct {
	namespaces map[string]bool
	lists      []exportList
}

// exportList is the exportTo of an object.
type exportList struct {
	source.Change
	path  string
	names []string
}

// look notes the namespaces that an object is exported to.
func (e *exports) look(c source.Change, path string, names []string) {
	if len(names) > 0 {
		e.lists = append(e.lists, exportList{c, path, names})
	}
}

// lookAtService notes the namespaces that the annotation of a Service names.
func (e *exports) lookAtService(c source.Change, annotations map[string]string) {
	if text := annotations[kinds.ExportAnnotation]; text != "" {
		var names []string
		for name := range strings.SplitSeq(text, ",") {
			names = append(names, strings.TrimSpace(name))
		}
		e.look(c, fmt.Sprintf("metadata.annotations[%q]", kinds.ExportAnnotation), names)
	}
}

func (e *exports) addNamespace(name string) {
	if e.namespaces == nil {
		e.namespaces = map[string]bool{}
	}
	e.namespaces[name] = true
}

// missing returns the namespaces that are named and are not there. The caller has read all
// namespaces: among manifests others may be elsewhere.
func (e *exports) missing() (problems []source.Problem) {
	if len(e.namespaces) == 0 {
		return nil
	}
	isMissing := func(name string) bool {
		return name != "" && name != "." && name != "*" && name != "~" && !e.namespaces[name]
	}
	for _, l := range e.lists {
		var absent []string
		for _, name := range l.names {
			if isMissing(name) && !slices.Contains(absent, name) {
				absent = append(absent, name)
			}
		}
		if len(absent) == 0 || slices.Contains(l.names, "*") {
			continue
		}
		message := "there is no such namespace"
		if !slices.ContainsFunc(l.names, func(name string) bool { return !isMissing(name) }) {
			message += ", so that nobody sees this object"
		}
		problems = append(problems, source.Problem{
			Severity: source.Warning, Object: l.Key, Origin: l.Origin, Path: l.path, Value: strings.Join(absent, ","),
			Message: message, Want: `the name of a namespace, "." for the object's own, or "*" for all`,
		})
	}
	return problems
}
