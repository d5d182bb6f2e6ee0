package sizing

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Constants are the measured costs of one item of each kind to a control plane.
type Constants struct {
	// Note says what was measured, Version which version, and Command how to repeat it.
	Note    string          `json:"note,omitempty"`
	Version string          `json:"version"`
	Command string          `json:"command"`
	Machine measure.Machine `json:"machine"`

	// Resident bytes after garbage collection: of the process with an empty mesh, of each service,
	// pod and connected sidecar, and of the translated configuration of a service, which proxies
	// share.
	BaseBytes       float64 `json:"baseBytes"`
	ServiceBytes    float64 `json:"serviceBytes"`
	PodBytes        float64 `json:"podBytes"`
	SidecarBytes    float64 `json:"sidecarBytes"`
	TranslatedBytes float64 `json:"translatedBytes"`

	// Connect is the cost of a sidecar's first connection. ConnectService is added for each service
	// that the sidecar sees.
	Connect        Cost `json:"connect"`
	ConnectService Cost `json:"connectService"`
	// Change is the cost of a change of a kind for each sidecar that sees it, its acknowledgement
	// included.
	Change map[string]Cost `json:"change"`
}

// Cost is CPU time of the control plane, and bytes on the wire as clients count them, with HTTP/2
// framing and without TCP's.
type Cost struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	Sent       float64 `json:"bytesToSidecar"`
	Received   float64 `json:"bytesFromSidecar"`
}

// Add returns the sum of both.
func (c Cost) Add(o Cost) Cost {
	return Cost{CPUSeconds: c.CPUSeconds + o.CPUSeconds, Sent: c.Sent + o.Sent, Received: c.Received + o.Received}
}

// Times returns the cost of n items.
func (c Cost) Times(n float64) Cost {
	return Cost{CPUSeconds: c.CPUSeconds * n, Sent: c.Sent * n, Received: c.Received * n}
}

//go:embed constants.json
var storedJSON []byte

// Stored returns the constants that were measured for this version or a slightly older one.
func Stored() (Constants, error) { return Parse(storedJSON) }

// Parse reads constants, from JSON or YAML.
func Parse(encoded []byte) (Constants, error) {
	var c Constants
	if err := yaml.UnmarshalStrict(encoded, &c); err != nil {
		return c, fmt.Errorf("constants: %w; want what lateen perf constants -o json writes", err)
	}
	return c, c.validate()
}

// maxCost is the upper bound of each constant, a terabyte or as many seconds. It keeps sums finite.
const maxCost = 1e12

func (c Constants) validate() error {
	for _, n := range c.numbers() {
		if n.value < 0 || n.value > maxCost {
			return fmt.Errorf("constants: %s is %v; want 0 to %g", n.name, n.value, maxCost)
		}
	}
	for _, kind := range c.Kinds() {
		if seconds := c.Change[kind].CPUSeconds; seconds == 0 {
			return fmt.Errorf("constants: change.%s.cpuSeconds is %v; want more than 0", kind, seconds)
		}
	}
	if len(c.Change) == 0 || c.SidecarBytes == 0 {
		return fmt.Errorf(
			"constants: there is no change, or no sidecarBytes; want what lateen perf constants -o json writes",
		)
	}
	return nil
}

// namedValue is one of the numbers with its path in the file.
type namedValue struct {
	name  string
	value float64
}

func (c Constants) numbers() []namedValue {
	all := []namedValue{
		{"baseBytes", c.BaseBytes}, {
			"serviceBytes", c.ServiceBytes,
		}, {"podBytes", c.PodBytes}, {"sidecarBytes", c.SidecarBytes},
		{"translatedBytes", c.TranslatedBytes},
	}
	add := func(name string, cost Cost) {
		all = append(all, namedValue{
			name + ".cpuSeconds", cost.CPUSeconds,
		}, namedValue{name + ".bytesToSidecar", cost.Sent}, namedValue{name + ".bytesFromSidecar", cost.Received})
	}
	add("connect", c.Connect)
	add("connectService", c.ConnectService)
	for _, kind := range c.Kinds() {
		add("change."+kind, c.Change[kind])
	}
	return all
}
