package convert

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/source"
)

// path is the location of a value in its object, as users write it: "spec.http[0].match[1].uri".
type path string

func (p path) dot(field string) path { return p + "." + path(field) }

func (p path) at(i int) path { return p + "[" + path(strconv.Itoa(i)) + "]" }

func (p path) key(k string) path { return p + "[" + path(strconv.Quote(k)) + "]" }

// covers reports whether o is p or below it.
func (p path) covers(o path) bool {
	rest, below := strings.CutPrefix(string(o), string(p))
	return below && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// report collects the problems of one object.
type report struct {
	object   source.Key
	origin   string
	problems []source.Problem
}

// fail reports that the value at p is not in force.
func (r *report) fail(p path, value any, message, want string) {
	problem := r.problem(p, value, message, want)
	problem.Severity = source.Error
	r.problems = append(r.problems, problem)
}

// warn reports that the value at p is in force, but probably not with the effect that was meant.
func (r *report) warn(p path, value any, message, want string) {
	r.problems = append(r.problems, r.problem(p, value, message, want))
}

// problem returns a warning about the value at p.
func (r *report) problem(p path, value any, message, want string) source.Problem {
	return source.Problem{
		Severity: source.Warning,
		Object:   r.object,
		Origin:   r.origin,
		Path:     string(p),
		Value:    shown(value),
		Message:  message,
		Want:     want,
	}
}

// mark returns the number of problems so far, for failure.
func (r *report) mark() int { return len(r.problems) }

// failure returns the first error at p or below since the mark, or "". The text does not name p, so
// it stays the same when a route moves within its object.
func (r *report) failure(since int, p path) string {
	for _, problem := range r.problems[since:] {
		if problem.Severity != source.Error {
			continue
		}
		where := strings.TrimPrefix(strings.TrimPrefix(problem.Path, string(p)), ".")
		if where == "" {
			return problem.Message
		}
		return where + ": " + problem.Message
	}
	return ""
}

// hasErrorAbove reports whether there is an error for p or something that encloses it.
func (r *report) hasErrorAbove(p path) bool {
	for _, problem := range r.problems {
		if problem.Severity == source.Error && path(problem.Path).covers(p) {
			return true
		}
	}
	return false
}

// maxShown is how much of a value, in bytes, is repeated to the user.
const maxShown = 120

func shown(value any) string {
	if value == nil {
		return ""
	}
	s := strings.ToValidUTF8(fmt.Sprint(value), "\uFFFD")
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}
