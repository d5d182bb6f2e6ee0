package page

// MaxPlanQuestion is the size in bytes of the largest PlanQuestion that is answered.
const MaxPlanQuestion = 16 << 20

// PlanQuestion is manifests, of which a Plan says what applying them would do.
type PlanQuestion struct {
	Files []PlanFile `json:"files"`
	// Delete asks what deleting their objects would do.
	Delete bool `json:"delete,omitempty"`
}

// PlanFile is a file of manifests in YAML, or in JSON by its name.
type PlanFile struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Plan is what a change would do to the proxies of a replica. Nothing of it has happened.
type Plan struct {
	Objects []PlannedObject `json:"objects"`
	// Proxies would get something, and Drained of them another listener or one less, which drains
	// its connections. Classes are those of proxies with another configuration.
	Proxies int `json:"proxies"`
	Drained int `json:"drained"`
	Classes int `json:"classes"`
	// Bytes is the size of the resources that would be sent, to all proxies.
	Bytes int64 `json:"bytes"`
	// Namespaces are the Proxies by their namespace.
	Namespaces map[string]int `json:"namespaces,omitempty"`
	// Effects are what proxies would get, those of most proxies first, and Left how many more there
	// are, which are not shown.
	Effects []PlannedEffect `json:"effects"`
	Left    int             `json:"left,omitempty"`
	// Appeared and Mended are the problems that would come and go.
	Appeared []Problem `json:"appeared"`
	Mended   []Problem `json:"mended"`
	// Notes are what is said of manifests that no control plane reads, or of one that is deleted.
	Notes []Problem `json:"notes,omitempty"`
}

// What would become of an object.
const (
	Created   = "created"
	Changes   = "changed"
	Deleted   = "deleted"
	Unchanged = "unchanged" // it makes no difference to any proxy
	Refused   = "refused"
	// NotJudged is an object that makes or changes Pods, or that the control plane does not read.
	NotJudged = "not judged"
)

// PlannedObject is an object of a PlanQuestion.
type PlannedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Origin    string `json:"origin,omitempty"`
	Verb      string `json:"verb"`
}

// PlannedEffect is what would differ for proxies that have the same.
type PlannedEffect struct {
	Proxy   string `json:"proxy"` // one of them, "name.namespace"
	Proxies int    `json:"proxies"`
	Bytes   int    `json:"bytes"` // to each
	Drains  bool   `json:"drains,omitempty"`
	// Changes are by type and name, and Left is how many more there are, which are not shown.
	Changes []PlannedChange `json:"changes"`
	Left    int             `json:"left,omitempty"`
}

// PlannedChange is a resource that would come, go, or differ in some fields.
type PlannedChange struct {
	Type string `json:"type"`
	Name string `json:"name"`
	Verb string `json:"verb"` // Created, Changes or Deleted
	// Fields are those of a resource that Changes, and Left is how many more differ.
	Fields []FieldChange `json:"fields,omitempty"`
	Left   int           `json:"left,omitempty"`
}

// FieldChange is a field that differs: its path, and its value before and after in JSON, cut to a
// line. A value is empty where there is none.
type FieldChange struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}
