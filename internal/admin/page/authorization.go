package page

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/lateen-mesh/lateen/internal/mesh/policy"
)

// AuthzQuestion asks what the policies of a workload do with a call.
type AuthzQuestion struct {
	Namespace string
	// Workload is the name of a Pod, or how the names of Pods with equal policies begin, as that of
	// their Deployment.
	Workload string
	// Call may have namespace/account as the caller's identity: of the mesh's trust domain.
	Call policy.Call
}

// AuthzAnswer is what they do, and what is wrong with these policies.
type AuthzAnswer struct {
	Workload string `json:"workload"` // namespace/name of the Pod that was looked at
	policy.Report
	Problems []string `json:"problems,omitempty"`
}

// Query is the question in a request for the page, with the call as JSON.
func (q AuthzQuestion) Query() (url.Values, error) {
	call, err := json.Marshal(q.Call)
	if err != nil {
		return nil, err
	}
	return url.Values{"namespace": {q.Namespace}, "workload": {q.Workload}, "call": {string(call)}}, nil
}

// AuthzQuestionOf reads what Query has written.
func AuthzQuestionOf(query url.Values) (AuthzQuestion, error) {
	q := AuthzQuestion{Namespace: query.Get("namespace"), Workload: query.Get("workload")}
	if err := json.Unmarshal([]byte(query.Get("call")), &q.Call); err != nil {
		return q, fmt.Errorf("call: %w; want it as JSON", err)
	}
	return q, nil
}
