package page

import "github.com/lateen-mesh/lateen/internal/source"

// Problem is one mistake in an object or a file.
type Problem struct {
	Severity  string `json:"severity"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Origin    string `json:"origin,omitempty"`
	Path      string `json:"path,omitempty"`
	Value     string `json:"value,omitempty"`
	Message   string `json:"message"`
	Want      string `json:"want,omitempty"`
	Text      string `json:"text"` // all of it as one line for people
}

// ProblemOf shows a problem.
func ProblemOf(p source.Problem) Problem {
	return Problem{
		Severity: p.Severity.String(), Kind: string(p.Object.Kind), Namespace: p.Object.Namespace, Name: p.Object.Name,
		Origin: p.Origin, Path: p.Path, Value: p.Value, Message: p.Message, Want: p.Want, Text: p.String(),
	}
}
