package page

import (
	"net/url"
	"strconv"
	"time"
)

// HistoryQuestion says which generations are wanted. Zero fields mean any.
type HistoryQuestion struct {
	Since, Until time.Time
	// Object changed: its kind, namespace and name, each of which may be empty.
	Object ObjectQuestion
	// Proxy is one that got something, as "name.namespace".
	Proxy string
	// Resource is the name of a resource that changed. That of a virtual host may lack its route
	// table.
	Resource string
	// Limit is how many are wanted at most.
	Limit int
}

// Query is the question in a request for the page.
func (q HistoryQuestion) Query() url.Values {
	v := q.Object.Query()
	for name, t := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !t.IsZero() {
			v.Set(name, t.Format(time.RFC3339Nano))
		}
	}
	v.Set("proxy", q.Proxy)
	v.Set("resource", q.Resource)
	v.Set("limit", strconv.Itoa(q.Limit))
	return v
}

// HistoryQuestionOf reads what Query has written. What cannot be read is left out.
func HistoryQuestionOf(v url.Values) HistoryQuestion {
	q := HistoryQuestion{Object: ObjectQuestionOf(v), Proxy: v.Get("proxy"), Resource: v.Get("resource")}
	q.Since, _ = time.Parse(time.RFC3339Nano, v.Get("since"))
	q.Until, _ = time.Parse(time.RFC3339Nano, v.Get("until"))
	q.Limit, _ = strconv.Atoi(v.Get("limit"))
	return q
}

// History is what a replica remembers of what was asked for.
type History struct {
	// Generations are the newest first.
	Generations []Generation `json:"generations"`
	// Since is when the oldest generation was published that is remembered; nothing is known of
	// before.
	Since time.Time `json:"since,omitzero"`
	// Missing is set if changes after the newest are not remembered.
	Missing bool `json:"missing,omitempty"`
	// Connected is when the proxy that was asked for connected. What it had before that is not
	// looked for.
	Connected time.Time `json:"connected,omitzero"`
}

// Generation is one change of the mesh: why it came, what it changed, and what became of it.
type Generation struct {
	Generation uint64 `json:"generation"`
	// At is when it was offered to proxies, and Replica whose generation it is.
	At      time.Time `json:"at"`
	Replica string    `json:"replica,omitempty"`
	// Start is set for the first since the control plane started: all that is there.
	Start bool `json:"start,omitempty"`
	// Gap is set if changes before it are not remembered: there were too many at once.
	Gap bool `json:"gap,omitempty"`
	// Causes are the objects that changed, those that people write first, and MoreCauses how many
	// more did.
	Causes     []Cause `json:"causes,omitempty"`
	MoreCauses int     `json:"moreCauses,omitempty"`
	// Appeared and Mended are the problems that came and went with it, of which MoreProblems are
	// not shown.
	Appeared     []string `json:"appeared,omitempty"`
	Mended       []string `json:"mended,omitempty"`
	MoreProblems int      `json:"moreProblems,omitempty"`
	// Groups are the proxies that it gave something, by what they got. There are none if it was for
	// nobody.
	Groups []Group `json:"groups,omitempty"`
	// Moved are the proxies that got another class, and MoreMoved how many more.
	Moved     []MovedProxy `json:"moved,omitempty"`
	MoreMoved int          `json:"moreMoved,omitempty"`
	// Seconds are what it took to convert, check and compile.
	Seconds float64 `json:"seconds,omitempty"`
	// Delivery is nil while proxies have yet to answer, and for a generation that is for none.
	Delivery *Delivery `json:"delivery,omitempty"`
}

// Group is proxies that got the same from a generation: all of some classes, and some that came
// from another class.
type Group struct {
	Classes []uint64 `json:"classes,omitempty"`
	Proxies []string `json:"proxies,omitempty"`
	// Resources are what changed for them, and MoreResources how many more.
	Resources     []ChangedName `json:"resources,omitempty"`
	MoreResources int           `json:"moreResources,omitempty"`
	// Unknown is set if nobody looked at what changed for them: it was too much.
	Unknown bool `json:"unknown,omitempty"`
}

// MovedProxy is a proxy, as "name.namespace", that got another class, or addresses of its own in
// the same one.
type MovedProxy struct {
	Proxy string `json:"proxy"`
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
}

// Cause is an object that changed.
type Cause struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Verb      string `json:"verb"` // Created, Changes or Deleted
	// Origin is where the object stands, as "file:line"; empty in a cluster.
	Origin string `json:"origin,omitempty"`
	// Manager wrote the object last, at Written, as its managedFields say.
	Manager string    `json:"manager,omitempty"`
	Written time.Time `json:"written,omitzero"`
	// Fields are those that differ, and MoreFields how many more. Kinds that change all the time,
	// and Secrets, have none.
	Fields     []FieldChange `json:"fields,omitempty"`
	MoreFields int           `json:"moreFields,omitempty"`
}

// ChangedName is a resource that came, went or changed.
type ChangedName struct {
	Type string `json:"type"`
	Name string `json:"name"`
	Verb string `json:"verb"` // Created, Changes or Deleted
	// Before and After are the versions that were sent; empty for none.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Delivery is what became of a generation at the proxies that it is for.
type Delivery struct {
	Proxies int `json:"proxies"`
	// Refused answered with a NACK before they took the rest, Left went before they took all, and
	// Waiting had not when too many later generations waited too.
	Refused int   `json:"refused,omitempty"`
	Left    int   `json:"left,omitempty"`
	Waiting int   `json:"waiting,omitempty"`
	Bytes   int64 `json:"bytes"`
	// Half, Most and All are how many seconds after the event half of the proxies, 90 % of them,
	// and the last had it; 0 if they were not waited for.
	Half float64 `json:"half"`
	Most float64 `json:"most"`
	All  float64 `json:"all"`
}
