package lab

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"fortio.org/log"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/airline"
	"github.com/lateen-mesh/lateen/internal/perf/traffic"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

var besideReport = flag.String("beside", "", "the report of make beside-istiod from which docs/seeds is made")

// lateen is the program that labs measure.
var lateen string

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "server" { // the pods' program
		playServer(os.Args[3])
	}
	if len(os.Args) > 1 && os.Args[1] == "airline" {
		playAirline(os.Args[2:])
	}
	flag.Parse()
	dir, err := os.MkdirTemp("", "lateen-lab-")
	if err == nil && !testing.Short() {
		lateen, err = lateenserve.BuildCommands(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// playServer is what pods of the data plane run.
func playServer(address string) {
	log.SetLogLevelQuiet(log.Error)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := traffic.Serve(ctx, address); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playAirline is what pods of the airline run.
func playAirline(args []string) {
	var s airline.Server
	flags := flag.NewFlagSet("airline", flag.ExitOnError)
	flags.StringVar(&s.Service, "service", "", "")
	flags.StringVar(&s.Address, "address", "", "")
	flags.IntVar(&s.Port, "port", 0, "")
	flags.StringVar(&s.Data, "data", "", "")
	flags.StringVar(&s.CustomerURL, "customer", "", "")
	flags.StringVar(&s.FlightURL, "flight", "", "")
	flags.StringVar(&s.Proxy, "proxy", os.Getenv("HTTP_PROXY"), "")
	_ = flags.Parse(args) // it ends the process
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := s.Serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// tiny runs a lab at the smallest size, and returns its tables.
func tiny(t *testing.T, name string, settings ...func(o *Options)) []Table {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a lab")
	}
	l, err := Find(name)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	o := Options{
		Server: []string{lateen, "perf-control-plane", "--log-level", "warn"}, Self: self,
		Envoy: realenvoy.Binary(t), StateDir: t.TempDir(), Version: "test", Scale: 0.01, Pause: 0.1,
	}
	for _, set := range settings {
		set(&o)
	}
	r, err := l.Run(t.Context(), o)
	require.NoError(t, err)
	requireComplete(t, l, r)
	return r.Tables
}

// requireComplete requires that a report has the declared tables and survives its JSON.
func requireComplete(t *testing.T, l Lab, r Report) {
	t.Helper()
	require.Equal(t, l.Name, r.Lab)
	require.Len(t, r.Tables, len(l.tables()))
	for i, declared := range l.tables() {
		require.Equal(t, declared.Columns, r.Tables[i].Columns)
		require.Len(t, r.Tables[i].Rows, len(declared.Rows))
		for j, row := range declared.Rows {
			require.Equal(t, row.Name, r.Tables[i].Rows[j].Name)
			for k, c := range row.Cells {
				require.Equal(t, c.Published, r.Tables[i].Rows[j].Cells[k].Published)
			}
		}
	}
	encoded, err := json.Marshal(r)
	require.NoError(t, err)
	again, err := ParseReport(encoded)
	require.NoError(t, err)
	require.Equal(t, r, again)
}

// ours returns the figures of a column, by rows. Each has been measured.
func ours(t *testing.T, table Table, column string) (values []float64) {
	t.Helper()
	for i, c := range table.Columns {
		if c.Name != column {
			continue
		}
		for _, r := range table.Rows {
			require.NotNil(t, r.Cells[i].Ours, "%s: %s", r.Name, column)
			values = append(values, *r.Cells[i].Ours)
		}
		return values
	}
	require.Fail(t, "there is no such column", column)
	return nil
}

func TestEveryLabSaysWhatItReproduces(t *testing.T) {
	for _, l := range Labs() {
		require.NotEmpty(t, l.About, l.Name)
		require.NotEmpty(t, l.Document, l.Name)
		require.NotEmpty(t, l.Reproduces, l.Name)
		require.NotEmpty(t, l.Steps, l.Name)
		require.Positive(t, l.Scale, l.Name)
		require.LessOrEqual(t, l.Scale, 1.0, l.Name)
		for _, table := range l.tables() {
			require.NotEmpty(t, table.Rows, table.Title)
			for _, r := range table.Rows {
				require.Len(t, r.Cells, len(table.Columns), "%s: %s", l.Name, r.Name)
			}
			header, rows := table.Text()
			for _, cells := range rows {
				require.Len(t, cells, len(header))
			}
		}
	}
	_, err := Find("none")
	require.ErrorContains(t, err, `lab "none": want one of book, `)
}

func TestBookCountsPushes(t *testing.T) {
	table := tiny(t, "book")[0]
	pushed, received := ours(t, table, "push count"), ours(t, table, "bytes to all proxies")
	require.GreaterOrEqual(t, pushed[0], 13.0*2, "13 proxies get clusters and virtual hosts")
	require.Less(t, pushed[1], pushed[0]/2, "with a Sidecar the gateway alone gets them")
	require.Less(t, received[1], received[0]/2)
	require.Positive(t, pushed[2])
	sizes := ours(t, table, "configuration of a sidecar")
	require.Less(t, sizes[1], sizes[0])
}

func TestBookinfoReachesEverySidecar(t *testing.T) {
	tables := tiny(t, "bookinfo-20")
	require.Equal(t, []float64{6, 6, 6, 6}, ours(t, tables[0], "sidecars"), "one shop")
	for _, n := range ours(t, tables[0], "pushes") {
		require.Positive(t, n)
	}
	require.Equal(t, []float64{sampleSize}, ours(t, tables[1], "Envoys"))
	require.Equal(t, []float64{1}, ours(t, tables[1], "namespaces with the new ports"))
	require.Equal(t, []float64{0}, ours(t, tables[1], "refused updates"))
}

func TestBookinfoWithRealEnvoysAlone(t *testing.T) {
	tables := tiny(t, "bookinfo-20", func(o *Options) { o.Real = true })
	require.Equal(t, []float64{6}, ours(t, tables[1], "Envoys"), "one shop")
	require.Equal(t, []float64{1}, ours(t, tables[1], "namespaces with the new ports"))
	require.Equal(t, []float64{0}, ours(t, tables[1], "refused updates"))
}

func TestKubeconConnectsAll(t *testing.T) {
	table := tiny(t, "kubecon")[0]
	require.Equal(t, []float64{0, 60, 62}, ours(t, table, "connections"), "with two gateways")
}

func TestChurnFillsBothTables(t *testing.T) {
	tables := tiny(t, "aks-churn")
	for _, table := range tables {
		require.Equal(t, []float64{250, 150, 150}, ours(t, table, "sidecars"))
		rates := ours(t, table, "churn rate (sidecars/s)")
		require.Zero(t, rates[0])
		for _, rate := range rates[1:] {
			require.Positive(t, rate)
			require.LessOrEqual(t, rate, 1.1*publishedRate, "as published, whatever the size")
		}
	}
}

func TestServicesServesAll(t *testing.T) {
	require.Equal(t, []float64{200, 200}, ours(t, tiny(t, "aks-services")[0], "sidecars"))
}

func TestScaleIsAShare(t *testing.T) {
	l, err := Find("book")
	require.NoError(t, err)
	for _, o := range []Options{{Scale: 2}, {Scale: -1}, {Pause: 2}} {
		o.Server = []string{"none"}
		_, err = l.Run(t.Context(), o)
		require.ErrorContains(t, err, "want ")
	}
}

// perfFits is how many sidecars fit on this machine.
func perfFits(t *testing.T) int {
	var limit *perf.LimitError
	require.ErrorAs(t, perf.CheckLimits(1<<40), &limit)
	return limit.Fits
}

func TestALabThatDoesNotFitSaysWhatWould(t *testing.T) {
	l := Lab{Name: "huge", Sidecars: 40 * perfFits(t), tables: func() []Table { return nil }}
	_, err := l.Run(t.Context(), Options{Server: []string{"none"}, Scale: 1})
	require.ErrorContains(t, err, "sidecars do not fit: ")
	require.ErrorContains(t, err, "with --scale ")
}

func TestFiguresStandBesidePublishedOnes(t *testing.T) {
	three, memory, cores := 1500.0, 198.9e6, 0.78
	table := Table{Title: "T", Columns: []Column{
		{"sidecars", Count}, {"memory", Bytes}, {"CPU", Cores}, {"p99", Seconds},
	}}
	r := row("churn", 4, "15,000", "22.2 GB", "15")
	r.Cells[0].Ours, r.Cells[1].Ours, r.Cells[2].Ours = &three, &memory, &cores
	table.Rows = []Row{r}
	header, rows := table.Text()
	require.Equal(t, []string{"", "Lateen", "published", "ratio", "a sidecar", "published", "ratio"}, header)
	require.Equal(t, [][]string{
		{"churn", "", "", "", "", "", ""},
		{"sidecars", "1,500", "15,000", "1/10", none, none, none},
		{"memory", "198.9 MB", "22.2 GB", "1/112", "133 kB", "1.5 MB", "1/11.2"},
		{"CPU", "0.78", "15", "1/19.2", "0.52m", "1.00m", "1/1.92"},
		{"p99", none, none, none, none, none, none},
	}, rows)
	for text, want := range map[string]float64{"1,335.1/s": 1335.1} {
		got, ok := PerSecond.parse(text)
		require.True(t, ok)
		require.InDelta(t, want, got, 1e-9)
	}
	for _, text := range []string{"", "--", "0.2 to 1.0 a replica", "89 of 6,000", "almost 10 s", "8 furlongs"} {
		_, ok := Seconds.parse(text)
		require.False(t, ok, text)
	}
	require.Equal(t, "1", ratio(0.0989, 0.0990))
	require.Equal(t, "1/1,235", ratio(1, 1234.6))
}

func TestFiguresAreForPeople(t *testing.T) {
	for want, got := range map[string]string{
		"12,345": Count.Format(12345), "1.50 s": Seconds.Format(1.5), "15 ms": Seconds.Format(0.0151),
		"2.5 ms": Seconds.Format(0.0025), "30 µs": Seconds.Format(0.00003), "0": Seconds.Format(0),
		"1.20 GB": Bytes.Format(1.2e9), "3.4 MB": Bytes.Format(3.4e6), "5 kB": Bytes.Format(5e3),
		"0.25": Cores.Format(0.25), "74.0 %": Percent.Format(74), "31.2/s": PerSecond.Format(31.2),
		"300/min": PerMinute.Format(300),
	} {
		require.Equal(t, want, got)
	}
}

func TestAdviceOnServiceEntriesSavesQueries(t *testing.T) {
	table := tiny(t, "dns")[0]
	first, then := ours(t, table, "first lookups"), ours(t, table, "then, queries")
	require.GreaterOrEqual(t, first[0], 2.0, "each name is looked up")
	require.GreaterOrEqual(t, first[1], 2.0)
	require.Equal(t, []float64{0, 0}, first[4:], "with exportTo and NONE nothing is looked up")
	require.Equal(t, []float64{0, 0}, then[4:])
}

func TestRetriesHideAPhantom(t *testing.T) {
	table := tiny(t, "phantom")[0]
	failed, attempts := ours(t, table, "failed"), ours(t, table, "attempts at the phantom")
	for i, n := range ours(t, table, "requests") {
		require.Less(t, failed[i], n, "the other pods answer")
	}
	require.Positive(t, failed[0], "a third of the requests go to the phantom")
	require.Positive(t, attempts[0])
	require.Less(t, failed[1], failed[0], "another pod answers")
	require.Less(t, failed[3], failed[0])
	require.LessOrEqual(t, attempts[2], attempts[0])
}

func TestRequestsThroughSidecarsAreAnswered(t *testing.T) {
	tables := tiny(t, "data-plane")
	for _, n := range ours(t, tables[1], "requests") {
		require.Positive(t, n)
	}
	require.Equal(t, make([]float64, 8), ours(t, tables[1], "failed"), "of the eight scenarios")
	table := tables[0]
	for _, n := range ours(t, table, "answered") {
		require.Positive(t, n)
	}
	for _, n := range ours(t, table, "CPU of the client's proxy for 1,000/s") {
		require.Positive(t, n)
	}
}

// TestSeedsPageIsCurrent: docs/seeds.md has all labs as they are declared, and what was measured
// last (docs/seeds).
func TestSeedsPageIsCurrent(t *testing.T) {
	const docs = "../../../docs/"
	files, err := filepath.Glob(docs + "seeds/*.json")
	require.NoError(t, err)
	var reports []Report
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		r, err := ParseReport(content)
		require.NoError(t, err, file)
		l, err := Find(r.Lab)
		require.NoError(t, err, file)
		require.Len(t, r.Tables, len(l.tables()), "%s is of another version of the lab: make seeds", file)
		for i, declared := range l.tables() {
			require.Equal(t, declared.Columns, r.Tables[i].Columns, "%s is of another version: make seeds", file)
		}
		reports = append(reports, r)
	}
	golden.File(t, docs+"seeds.md", Page(reports, besideIstiod(t, docs+"seeds/istiod/beside.json")))
}

// besideIstiod reads what make seeds keeps of istiod. With -beside it is taken from that report of
// make beside-istiod, and kept.
func besideIstiod(t *testing.T, file string) *BesideIstiod {
	t.Helper()
	var b BesideIstiod
	if *besideReport != "" {
		content, err := os.ReadFile(*besideReport)
		require.NoError(t, err)
		both, err := perf.ParseBeside(content)
		require.NoError(t, err)
		encoded, err := json.MarshalIndent(NewBesideIstiod(both), "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, append(encoded, '\n'), 0o644))
	}
	content, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &b))
	return &b
}

func TestTheAirlineAnswersWithAndWithoutTheMesh(t *testing.T) {
	tables := tiny(t, "app")
	require.Len(t, tables, 2)
	for _, table := range tables {
		for _, n := range ours(t, table, "requests") {
			require.Positive(t, n)
		}
		require.Equal(t, make([]float64, len(airlineSystems())), ours(t, table, "failed"))
		require.Equal(t, 100.0, ours(t, table, "of them by hand")[handAirline])
	}
}

func TestRoutesOfAGatewayAreThereAndStayThere(t *testing.T) {
	tables := tiny(t, "gateway")
	require.Equal(t, []float64{3, 3}, ours(t, tables[0], "new routes"))
	require.Equal(t, []float64{0, 0}, ours(t, tables[0], "neither 404 nor 200"))
	require.Equal(t, []float64{6}, ours(t, tables[1], "routes"))
	require.Positive(t, ours(t, tables[1], "changes")[0])
	require.Positive(t, ours(t, tables[2], "requests")[0])
	require.Zero(t, ours(t, tables[2], "not answered with 200")[0], "a route that changes answers all the time")
	for i, n := range ours(t, tables[3], "requests") {
		require.Less(t, ours(t, tables[3], "failed")[i], n/3, "the other backends answer")
	}
	require.Equal(t, []float64{3}, ours(t, tables[4], "ListenerSets"))
	require.Zero(t, ours(t, tables[4], "neither 404 nor 200")[0])
	require.Zero(t, ours(t, tables[4], "not answered with 200 by others")[0], "a new listener disturbs none")
}
