package inject

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// podTemplates are where workloads have the template of their Pods, by group and kind.
var podTemplates = map[string][]string{
	"/Pod":                               nil,
	"/ReplicationController":             {"spec", "template"},
	"apps/Deployment":                    {"spec", "template"},
	"apps/ReplicaSet":                    {"spec", "template"},
	"apps/StatefulSet":                   {"spec", "template"},
	"apps/DaemonSet":                     {"spec", "template"},
	"batch/Job":                          {"spec", "template"},
	"batch/CronJob":                      {"spec", "jobTemplate", "spec", "template"},
	"apps.openshift.io/DeploymentConfig": {"spec", "template"},
}

// TemplatePath returns where an object of a kind has the template of its Pods, which is the object
// itself for a Pod. It reports false for kinds that have none.
func TemplatePath(apiVersion, kind string) (path []string, ok bool) {
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group = ""
	}
	path, ok = podTemplates[group+"/"+kind]
	return path, ok
}

// Note says what became of a workload.
type Note struct {
	// Workload is its kind, namespace and name.
	Workload string
	Decision
}

// Documents injects the workloads of YAML documents. All else stays as it is, to the letter. An
// error names the document, by its number from 1 on; then there is no output.
func (i *Injector) Documents(in []byte, namespace string) (out []byte, notes []Note, err error) {
	if namespace == "" {
		namespace = "default"
	}
	d := documents{injector: i, namespace: namespace}
	var problems []error
	var all bytes.Buffer
	for n, part := range split(in) {
		text, err := d.document(part)
		if err != nil {
			problems = append(problems, fmt.Errorf("document %d: %w", n+1, err))
		}
		all.Write(text)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, d.notes, err
	}
	return all.Bytes(), d.notes, nil
}

// separator matches the line between documents.
var separator = regexp.MustCompile(`(?m)^---([ \t].*)?$\r?\n?`)

// split returns the documents, each with the line before it.
func split(in []byte) [][]byte {
	var all [][]byte
	from := 0
	for _, at := range separator.FindAllIndex(in, -1) {
		if at[0] > from {
			all = append(all, in[from:at[0]])
		}
		from = at[0]
	}
	return append(all, in[from:])
}

// documents is the state of one stream of documents.
type documents struct {
	injector  *Injector
	namespace string
	notes     []Note
}

// document returns a document with its workloads injected, or the document itself if there are
// none.
func (d *documents) document(text []byte) ([]byte, error) {
	var o object
	err := untrusted.CheckFile(text)
	if err == nil {
		err = yaml.Unmarshal(text, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("this is no YAML of an object: %w", err)
	}
	changed, err := d.object(o)
	if err != nil || !changed {
		return text, err
	}
	out, err := yaml.Marshal(o)
	if err != nil {
		return nil, err
	}
	if at := separator.FindIndex(text); at != nil && at[0] == 0 {
		return append([]byte("---\n"), out...), nil
	}
	return out, nil
}

// configNotRead is said of a ProxyConfig among the documents.
const configNotRead = "it has no effect on the workloads of these documents, for which no objects are read; " +
	"say it in the mesh configuration's defaultConfig or in the annotation " + ProxyConfigAnnotation

// object injects an object in place, and reports whether it did.
func (d *documents) object(o object) (changed bool, err error) {
	apiVersion, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	if items, ok := o["items"].([]any); ok && strings.HasSuffix(kind, "List") {
		return d.list(items)
	}
	metadata, _ := o["metadata"].(object)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	namespace = cmp.Or(namespace, d.namespace)
	workload := fmt.Sprintf("%s %s/%s", kind, namespace, name)
	path, ok := TemplatePath(apiVersion, kind)
	if !ok {
		if kind == "ProxyConfig" && strings.HasPrefix(apiVersion, "networking.istio.io/") {
			d.notes = append(d.notes, Note{workload, Decision{Warning: configNotRead}})
		}
		return false, nil
	}
	template := o
	for n, field := range path {
		if template, ok = template[field].(object); !ok {
			return false, fmt.Errorf("%s: %s is missing; want the template of a Pod",
				workload, strings.Join(path[:n+1], "."))
		}
	}
	owner := Owner{apiVersion, kind, name}
	if kind == "Pod" {
		owner = Owner{}
	}
	decision, err := d.pod(template, namespace, owner)
	if err != nil {
		return false, fmt.Errorf("%s: %w", workload, err)
	}
	d.notes = append(d.notes, Note{workload, decision})
	return decision.Inject, nil
}

// list injects the items of a list. All mistakes are told.
func (d *documents) list(items []any) (changed bool, err error) {
	var problems []error
	for n := range items {
		o, _ := items[n].(object)
		one, err := d.object(o)
		if err != nil {
			problems = append(problems, fmt.Errorf("items[%d]: %w", n, err))
		}
		changed = changed || one
	}
	return changed, errors.Join(problems...)
}

// pod injects the template of a Pod in place.
func (d *documents) pod(template object, namespace string, owner Owner) (Decision, error) {
	raw, err := json.Marshal(template)
	if err != nil {
		return Decision{}, err
	}
	result, err := d.injector.Inject(Pod{JSON: raw, Namespace: namespace, Owner: owner})
	if err != nil || !result.Inject {
		return result.Decision, err
	}
	var injected object
	if err := json.Unmarshal(result.JSON, &injected); err != nil {
		return result.Decision, err
	}
	template["metadata"], template["spec"] = injected["metadata"], injected["spec"]
	return result.Decision, nil
}
