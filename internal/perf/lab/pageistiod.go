package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/perf"
)

// BesideIstiod is what istiod and Lateen did on one machine, one after the other.
type BesideIstiod struct {
	Comparison perf.Comparison `json:"comparison"`
	// Where is the machine, and Sidecars how many were connected.
	Where    string `json:"where"`
	Sidecars int    `json:"sidecars"`
	Lateen   string `json:"lateen"` // its version
}

// NewBesideIstiod keeps of a run that measured istiod and Lateen what the page shows.
func NewBesideIstiod(b perf.Beside) BesideIstiod {
	r := BesideIstiod{
		Comparison: b.Comparison, Where: machine(b.B.Machine), Lateen: b.B.ControlPlane.Version,
	}
	for _, p := range b.B.Phases {
		r.Sidecars = max(r.Sidecars, p.Sidecars)
	}
	return r
}

const istiodHeading = "istiod on the same machine"

// markdown returns the section of the page.
func (b BesideIstiod) markdown() string {
	var s strings.Builder
	s.WriteString("\n## " + istiodHeading + "\n\n" + wrap(fmt.Sprintf("The published figures are of other machines. "+
		"Here istiod itself and Lateen have served %s sidecars one after the other, with the same objects in one API "+
		"server (make beside-istiod).", thousands(int64(b.Sidecars))), "", ""))
	s.WriteString("\n| One after the other | istiod | Lateen | ratio | istiod, a sidecar | Lateen, " +
		"a sidecar |\n|---|---:|---:|---:|---:|---:|\n")
	for _, p := range b.Comparison.Phases {
		s.WriteString("| **" + p.Name + "** |  |  |  |  |  |\n")
		for _, r := range p.Rows {
			s.WriteString(b.row(r))
		}
	}
	s.WriteString("\n" + wrap(fmt.Sprintf("`make beside-istiod`, lateen %s: %s. Costs of changes are means of "+
		"several.", b.Lateen, b.Where), "", ""))
	return s.String()
}

func (b BesideIstiod) row(r perf.Ratio) string {
	unit := map[string]Unit{"s": Seconds, "B": Bytes}[r.Unit]
	each := func(v float64) string {
		divided := slices.ContainsFunc([]string{"CPU", "bytes", "memory"}, func(cost string) bool {
			return strings.HasPrefix(r.Name, cost) // not times, nor what is one for all
		})
		if b.Sidecars == 0 || !divided {
			return none
		}
		if v /= float64(b.Sidecars); unit == Bytes {
			return unit.formatEach(v)
		}
		return unit.Format(v)
	}
	of := none
	if r.A > 0 && r.B > 0 {
		of = ratio(r.B, r.A)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", r.Name, unit.Format(r.A), unit.Format(r.B), of, each(r.A),
		each(r.B))
}
