package page

import (
	"net/url"
	"time"
)

// ConfigAt is the parameter of the page Dump with a time, as RFC 3339 has it: what the proxy had
// then is shown.
const ConfigAt = "at"

// Forgotten is the field with the names of resources whose content is not remembered, of a Struct
// that ends such a dump.
const Forgotten = "forgotten"

// DiffQuestion asks in what the configuration of a proxy, "name.namespace", differs between two
// times. A zero To is now.
type DiffQuestion struct {
	Proxy    string
	From, To time.Time
}

// Query is the question in a request for the page.
func (q DiffQuestion) Query() url.Values {
	v := url.Values{"proxy": {q.Proxy}, "from": {q.From.Format(time.RFC3339Nano)}}
	if !q.To.IsZero() {
		v.Set("to", q.To.Format(time.RFC3339Nano))
	}
	return v
}

// DiffQuestionOf reads what Query has written. What cannot be read is left out.
func DiffQuestionOf(v url.Values) DiffQuestion {
	q := DiffQuestion{Proxy: v.Get("proxy")}
	q.From, _ = time.Parse(time.RFC3339Nano, v.Get("from"))
	q.To, _ = time.Parse(time.RFC3339Nano, v.Get("to"))
	return q
}

// ConfigDiff is in what the configuration of a proxy differs between two times.
type ConfigDiff struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	PlannedEffect
	// Forgotten are resources whose content is not remembered, as "TYPE NAME".
	Forgotten []string `json:"forgotten,omitempty"`
}

// Restoration is what objects were at a time, of those that changed since.
type Restoration struct {
	At      time.Time       `json:"at"`
	Objects []EarlierObject `json:"objects"`
	// Restarts are when the control plane started since then. What changed while it was away is not
	// among the objects.
	Restarts []time.Time `json:"restarts,omitempty"`
	// Since is from when on changes are known.
	Since time.Time `json:"since,omitzero"`
}

// Unknown is an object whose form at a time is not remembered.
const Unknown = "unknown"

// EarlierObject is an object as it was. Of its labels and annotations those are known that the
// control plane reads.
type EarlierObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Verb is what has to be done so that it is as it was: Created, Changes, Deleted or Unknown.
	Verb        string            `json:"verb"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        any               `json:"spec,omitempty"`
}

// BlameQuestion asks for the causes of each part of a resource of a proxy, "name.namespace". Type
// is the short name of its type, as "cds", and Name its name or a part of it that fits one alone.
type BlameQuestion struct{ Proxy, Type, Name string }

// Query is the question in a request for the page.
func (q BlameQuestion) Query() url.Values {
	return url.Values{"proxy": {q.Proxy}, "type": {q.Type}, "name": {q.Name}}
}

// BlameQuestionOf reads what Query has written.
func BlameQuestionOf(v url.Values) BlameQuestion {
	return BlameQuestion{Proxy: v.Get("proxy"), Type: v.Get("type"), Name: v.Get("name")}
}

// Blame is what made each part of a resource what it is.
type Blame struct {
	Type string `json:"type"`
	Name string `json:"name"`
	// Changes are those that made a part what it is, the newest first.
	Changes []BlamedChange `json:"changes"`
	// Since is from when on all changes of the resource are known. All else in it is older.
	Since time.Time `json:"since,omitzero"`
}

// BlamedChange is a generation that made parts of a resource what they are. One without a number is
// the time when the proxy came back, and was given what changed while it was away.
type BlamedChange struct {
	Generation uint64    `json:"generation,omitempty"`
	At         time.Time `json:"at"`
	Causes     []Cause   `json:"causes,omitempty"`
	MoreCauses int       `json:"moreCauses,omitempty"`
	// Parts are the fields that it made what they are, in the order of their paths. Rest is set if
	// it made the resource, and with that all parts that no other change has.
	Parts []FieldChange `json:"parts,omitempty"`
	Rest  bool          `json:"rest,omitempty"`
}
