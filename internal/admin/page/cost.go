package page

import (
	"net/url"
	"time"
)

// What costs are told by.
const (
	ByNamespace = "namespace"
	ByObject    = "object"
)

// CostQuestion asks what changes have cost since a time, by namespace or by object.
type CostQuestion struct {
	By    string
	Since time.Time
}

// Query is the question in a request for the page.
func (q CostQuestion) Query() url.Values {
	return url.Values{"by": {q.By}, "since": {q.Since.Format(time.RFC3339Nano)}}
}

// CostQuestionOf reads what Query has written. What cannot be read is left out.
func CostQuestionOf(v url.Values) CostQuestion {
	q := CostQuestion{By: v.Get("by")}
	q.Since, _ = time.Parse(time.RFC3339Nano, v.Get("since"))
	return q
}

// Cost is what changes have cost.
type Cost struct {
	// Rows are the most expensive first. What a generation of several objects took is shared evenly
	// among these, so that the rows add up to Total.
	Rows  []CostRow `json:"rows"`
	Total CostRow   `json:"total"`
	// Since is when the first of the generations was published.
	Since time.Time `json:"since,omitzero"`
}

// CostRow is what the changes of a namespace or an object have cost.
type CostRow struct {
	Name string `json:"name"`
	// Changes are how many objects changed, once for each generation.
	Changes int `json:"changes"`
	// Seconds are what it took to convert, check and compile.
	Seconds float64 `json:"seconds"`
	// Pushes are proxies that were sent something, once for each generation.
	Pushes float64 `json:"pushes"`
	Bytes  float64 `json:"bytes"`
}

// Add adds what another row has.
func (r *CostRow) Add(o CostRow) {
	r.Changes += o.Changes
	r.Seconds += o.Seconds
	r.Pushes += o.Pushes
	r.Bytes += o.Bytes
}
