package apart

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
)

// order is what the process is told first.
type order struct {
	Options  sidecar.Options    `json:"options"`
	Manners  sidecar.Manners    `json:"manners"`
	Sidecars []sidecar.Identity `json:"sidecars"`
}

// word follows the order: the sidecars are to connect.
type word struct {
	Connect bool `json:"connect"`
}

// report is what the process tells: first that it waits for the word, and then how many have all that they asked for.
type report struct {
	Synced int `json:"synced"`
}

// reportEvery is how often a report may follow another.
const reportEvery = 20 * time.Millisecond

// Serve is the process: it does what it is told over in, and returns when that ends.
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
	var w word
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
				return nil // nobody hears it any more
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
