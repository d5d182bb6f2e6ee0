package apart

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
)

// order is the first message to the process.
type order struct {
	Options  sidecar.Options    `json:"options"`
	Manners  sidecar.Faults     `json:"manners"`
	Sidecars []sidecar.Identity `json:"sidecars"`
}

// connectOrder is the second message to the process: the sidecars are to connect.
type connectOrder struct {
	Connect bool `json:"connect"`
}

// report is a message of the process. The first says that it is ready for connectOrder, and later
// ones how many sidecars are in sync.
type report struct {
	Synced int `json:"synced"`
}

// reportEvery is the least time between two reports.
const reportEvery = 20 * time.Millisecond

// Serve runs the process: it reads orders from in, writes reports to out, and returns when in ends.
func Serve(in io.Reader, out io.Writer) error {
	orders, reports := json.NewDecoder(in), json.NewEncoder(out)
	var o order
	if err := orders.Decode(&o); err != nil {
		return fmt.Errorf("what lateen perf tells: %w", err)
	}
	fleet, err := sidecar.New(o.Options)
	if err != nil {
		return err
	}
	defer fleet.Close()
	if err := reports.Encode(report{}); err != nil {
		return err
	}
	var w connectOrder
	if err := orders.Decode(&w); err != nil || !w.Connect {
		return ignoreEnd(err)
	}
	for _, who := range o.Sidecars {
		fleet.Start(who, o.Manners)
	}
	ended := make(chan error, 1)
	go func() { ended <- ignoreEnd(orders.Decode(&w)) }()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	told := 0
	for {
		select {
		case <-tick.C:
		case err := <-ended:
			return err
		}
		if n := fleet.Stats().Synced; n != told {
			told = n
			if reports.Encode(report{Synced: n}) != nil {
				return nil // the parent has ended
			}
		}
	}
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
