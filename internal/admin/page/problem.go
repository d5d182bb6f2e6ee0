package page

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
