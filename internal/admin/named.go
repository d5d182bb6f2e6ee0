package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// named completes the name of a question: a part of a name will do if it is of one Pod or service
// of the namespace. Else the error names some that would.
func (d describer) named(q page.ObjectQuestion) (string, error) {
	names := d.namesOf(q)
	if slices.Contains(names, q.Name) {
		return q.Name, nil
	}
	parts := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.Contains(n, q.Name) })
	switch {
	case len(parts) == 1 && q.Name != "":
		return parts[0], nil
	case len(parts) > 1:
		return "", fmt.Errorf("%s %.253q of namespace %.253q %w; want one of %s, whose names it is a part of", q.Kind,
			q.Name, q.Namespace, errNotDescribed, some(parts))
	case len(names) > 0:
		return "", fmt.Errorf("%s %.253q of namespace %.253q %w; want one of %s", q.Kind, q.Name, q.Namespace,
			errNotDescribed, some(names))
	}
	return "", fmt.Errorf("%s %.253q of namespace %.253q %w, and no %[1]s of that namespace is", q.Kind, q.Name,
		q.Namespace, errNotDescribed)
}

// namesOf returns the names of all Pods, or all services, of the namespace, sorted. A service has
// its host for a name too.
func (d describer) namesOf(q page.ObjectQuestion) (names []string) {
	switch q.Kind {
	case "pod":
		for pod := range d.w.Workloads() {
			if pod.Namespace == q.Namespace {
				names = append(names, pod.Name)
			}
		}
	case "service":
		for svc := range d.w.ServicesIn(q.Namespace) {
			if string(svc.Host) == q.Name {
				return []string{q.Name}
			}
			names = append(names, svc.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// some returns a few of the names.
func some(names []string) string {
	const few = 8
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:few], ", ") + fmt.Sprintf(" and %d more", len(names)-few)
}
