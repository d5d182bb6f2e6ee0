package sizing

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Constants are what one of a kind costs a control plane, as measured.
type Constants struct {
	// Note says what was measured, Version of what, and Command how to do it again.
	Note    string          `json:"note,omitempty"`
	Version string          `json:"version"`
	Command string          `json:"command"`
	Machine measure.Machine `json:"machine"`

	// Bytes resident once garbage is collected: of the process with an empty mesh, and for each service, pod and connected sidecar, and
	// for what proxies are sent of a service, which they share.
	BaseBytes       float64 `json:"baseBytes"`
	ServiceBytes    float64 `json:"serviceBytes"`
	PodBytes        float64 `json:"podBytes"`
	SidecarBytes    float64 `json:"sidecarBytes"`
	TranslatedBytes float64 `json:"translatedBytes"`

	// Connect is what the first connection of a sidecar costs, and ConnectService what it costs more for each service that the sidecar
	// sees.
	Connect        Cost `json:"connect"`
	ConnectService Cost `json:"connectService"`
	// Change is what a change of a kind costs for each sidecar that sees it, its acknowledgement included.
	Change map[string]Cost `json:"change"`
}

// Cost is CPU time of the control plane, and bytes on the wire as clients count them: with HTTP/2's framing, without TCP's.
type Cost struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	Sent       float64 `json:"bytesToSidecar"`
	Received   float64 `json:"bytesFromSidecar"`
}

// Add is both together.
func (c Cost) Add(o Cost) Cost {
	return Cost{CPUSeconds: c.CPUSeconds + o.CPUSeconds, Sent: c.Sent + o.Sent, Received: c.Received + o.Received}
}

// Times is the cost of so many.
func (c Cost) Times(n float64) Cost {
	return Cost{CPUSeconds: c.CPUSeconds * n, Sent: c.Sent * n, Received: c.Received * n}
}

//go:embed constants.json
var stored []byte

// Stored are the constants that were measured of this version, or one a little older.
func Stored() (Constants, error) { return Parse(stored) }

// Parse reads constants, from JSON or YAML.
func Parse(encoded []byte) (Constants, error) {
	var c Constants
	if err := yaml.UnmarshalStrict(encoded, &c); err != nil {
		return c, fmt.Errorf("constants: %w; want what lateen perf constants -o json writes", err)
	}
	return c, c.check()
}

// largest bounds what one of a kind may cost, so that no sum of them overflows: a terabyte, or as many seconds.
const largest = 1e12

func (c Constants) check() error {
	for _, n := range c.numbers() {
		if n.value < 0 || n.value > largest {
			return fmt.Errorf("constants: %s is %v; want 0 to %g", n.name, n.value, largest)
		}
	}
	for _, kind := range c.Kinds() {
		if seconds := c.Change[kind].CPUSeconds; seconds == 0 {
			return fmt.Errorf("constants: change.%s.cpuSeconds is %v; want more than 0", kind, seconds)
		}
	}
	if len(c.Change) == 0 || c.SidecarBytes == 0 {
		return fmt.Errorf("constants: there is no change, or no sidecarBytes; want what lateen perf constants -o json writes")
	}
	return nil
}

// named is one of the numbers, by where it stands.
type named struct {
	name  string
	value float64
}

func (c Constants) numbers() []named {
	all := []named{
		{"baseBytes", c.BaseBytes}, {"serviceBytes", c.ServiceBytes}, {"podBytes", c.PodBytes}, {"sidecarBytes", c.SidecarBytes},
		{"translatedBytes", c.TranslatedBytes},
	}
	add := func(name string, cost Cost) {
		all = append(all, named{name + ".cpuSeconds", cost.CPUSeconds}, named{name + ".bytesToSidecar", cost.Sent}, named{name + ".bytesFromSidecar", cost.Received})
	}
	add("connect", c.Connect)
	add("connectService", c.ConnectService)
	for _, kind := range c.Kinds() {
		add("change."+kind, c.Change[kind])
	}
	return all
}
