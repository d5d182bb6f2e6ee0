package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// maxAnswer is how much of an answer of Prometheus is read, in bytes.
const maxAnswer = 64 << 20

// prometheusData asks the API of a Prometheus, and decodes the field "data" of its answer.
func prometheusData(ctx context.Context, prometheus, question string, query url.Values, data any) error {
	ctx, cancel := context.WithTimeout(ctx, remote.FindTimeout)
	defer cancel()
	api := measure.Prometheus{Address: prometheus, Client: http.DefaultClient, MaxAnswer: maxAnswer}
	text, status, err := api.Get(ctx, question, query)
	if err != nil {
		return fmt.Errorf("no Prometheus answers: %w; want --%s with the URL of one, as lateen up --observe runs it",
			err, flagPrometheus)
	}
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s answers %q, and not as a Prometheus does (%w); want --%s with the URL of one", prometheus,
			status, err, flagPrometheus)
	}
	if answer.Error != "" {
		return fmt.Errorf("%s of %s, %s: %s", question, prometheus, query.Get("query"), answer.Error)
	}
	return nil
}

// hasPages reports whether a Prometheus that answers has pages for people. One that is built from
// its Go module alone has none. Of one that does not answer nothing is known, so it has.
func hasPages(ctx context.Context, prometheus string) bool {
	ctx, cancel := context.WithTimeout(ctx, remote.FindTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, prometheus+"/query", nil)
	if err != nil {
		return true
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return true
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode != http.StatusInternalServerError
}

// series is one of an answer to a query over a time.
type series struct {
	Metric map[string]string
	Values [][2]any // seconds since 1970, and a number as text
}

// steps are the times that are asked for.
type steps struct {
	from time.Time
	each time.Duration
	n    int
}

// mostSteps is how many points a graph has at most.
const mostSteps = 240

// stepsOf returns whole seconds up to a time.
func stepsOf(until time.Time, since time.Duration) steps {
	each := max(time.Second, (since / mostSteps).Round(time.Second))
	n := int(since/each) + 1
	return steps{from: until.Truncate(time.Second).Add(-time.Duration(n-1) * each), each: each, n: n}
}

// query returns what a query has at each step.
func (s steps) query(ctx context.Context, prometheus, expression string) ([]series, error) {
	unix := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	var data struct{ Result []series }
	err := prometheusData(ctx, prometheus, "query_range", url.Values{
		"query": {expression}, "step": {strconv.Itoa(int(s.each.Seconds()))},
		"start": {unix(s.from)}, "end": {unix(s.from.Add(time.Duration(s.n-1) * s.each))},
	}, &data)
	return data.Result, err
}

// values returns the values of a series at each step; nil where it has none, or no finite one.
func (s steps) values(of series) []*float64 {
	out := make([]*float64, s.n)
	for _, point := range of.Values {
		at, isNumber := point[0].(float64)
		text, isText := point[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		i := int(math.Round((at - float64(s.from.Unix())) / s.each.Seconds()))
		if isNumber && isText && err == nil && !math.IsNaN(value) && !math.IsInf(value, 0) && i >= 0 && i < s.n {
			out[i] = &value
		}
	}
	return out
}

// labels are the steps as they stand at an axis.
func (s steps) labels() (out []string) {
	format := time.TimeOnly
	if time.Duration(s.n)*s.each > 24*time.Hour {
		format = time.DateTime
	}
	for i := range s.n {
		out = append(out, s.from.Add(time.Duration(i)*s.each).Format(format))
	}
	return out
}
