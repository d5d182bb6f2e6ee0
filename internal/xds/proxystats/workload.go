package proxystats

import (
	"cmp"
	"strings"
)

// Labels of Pods that say what a workload is called, the first that is set.
const (
	appLabel               = "app"
	versionLabel           = "version"
	canonicalNameLabel     = "service.istio.io/canonical-name"
	canonicalRevisionLabel = "service.istio.io/canonical-revision"
	defaultRevision        = "latest"
	maxField               = 128 // bytes of one name
)

// Workload names a workload as Istio's metrics do. Empty is unknown.
type Workload struct {
	Name, Namespace                  string
	CanonicalName, CanonicalRevision string
	Cluster                          string
	App, Version                     string
}

// Pod is what a Pod says of its workload.
type Pod struct {
	Namespace, Name string
	// Owner is the name of the workload. Empty: it follows from the Pod's name and labels, as
	// controllers of Kubernetes make them.
	Owner string
	Label func(key string) string // "" for none
}

// Of returns the workload of a Pod, with the canonical service as Istio defines it.
func Of(p Pod) Workload {
	w := Workload{
		Name:      cmp.Or(p.Owner, owner(p)),
		Namespace: p.Namespace,
		App:       p.Label(appLabel),
		Version:   p.Label(versionLabel),
	}
	w.CanonicalName = cmp.Or(
		p.Label(canonicalNameLabel), p.Label("app.kubernetes.io/name"), w.App, w.Name,
	)
	w.CanonicalRevision = cmp.Or(
		p.Label(canonicalRevisionLabel), p.Label("app.kubernetes.io/version"), w.Version,
		defaultRevision,
	)
	return w
}

// owner returns the name of a Pod's workload: that of the Deployment, StatefulSet, DaemonSet or Job
// which made it, or the Pod's own.
func owner(p Pod) string {
	if hash := p.Label("pod-template-hash"); hash != "" {
		if name, _, ok := strings.Cut(p.Name, "-"+hash); ok {
			return name
		}
	}
	if job := cmp.Or(p.Label("batch.kubernetes.io/job-name"), p.Label("job-name")); job != "" {
		return cronJob(job)
	}
	if p.Label("controller-revision-hash") != "" {
		if i := strings.LastIndexByte(p.Name, '-'); i > 0 {
			return p.Name[:i]
		}
	}
	return p.Name
}

// cronJob returns the name of the CronJob that made a Job, or the Job's own. A CronJob appends the
// time in minutes.
func cronJob(job string) string {
	i := strings.LastIndexByte(job, '-')
	if i <= 0 || len(job)-i-1 < 8 || len(job)-i-1 > 10 || strings.Trim(job[i+1:], "0123456789") != "" {
		return job
	}
	return job[:i]
}

// String returns Istio's form for endpoints, "name;namespace;canonical name;canonical
// revision;cluster", and behind it ";app;version" unless these are the canonical ones.
func (w Workload) String() string {
	fields := []string{w.Name, w.Namespace, w.CanonicalName, w.CanonicalRevision, w.Cluster}
	if w.App != w.CanonicalName || w.Version != w.CanonicalRevision {
		fields = append(fields, w.App, w.Version)
	}
	for i, f := range fields {
		fields[i] = clean(f)
	}
	return strings.Join(fields, ";")
}

// Parse reads what String wrote, with "-" for what is not known. Peers send it, so anything else
// has as many fields as it has.
func Parse(text string) Workload {
	fields := strings.Split(text, ";")
	if len(fields) > 7 {
		return Workload{}
	}
	canonical := len(fields) < 6
	for len(fields) < 7 {
		fields = append(fields, "")
	}
	for i, f := range fields {
		if fields[i] = clean(f); f == nothing {
			fields[i] = ""
		}
	}
	w := Workload{
		Name: fields[0], Namespace: fields[1], CanonicalName: fields[2], CanonicalRevision: fields[3],
		Cluster: fields[4], App: fields[5], Version: fields[6],
	}
	if canonical {
		w.App, w.Version = w.CanonicalName, w.CanonicalRevision
	}
	return w
}

// clean returns a name without what separates fields, at most maxField bytes of it.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r == ';' || r == 0x7f {
			return '_'
		}
		return r
	}, name)
	if len(name) > maxField {
		name = name[:maxField]
	}
	return strings.ToValidUTF8(name, "_")
}
