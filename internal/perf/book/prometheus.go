package book

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// maxAnswer bounds the answer of Prometheus, in bytes.
const maxAnswer = 1 << 20

// Prometheus returns a function that asks a Prometheus for one number. The URL may lack its scheme,
// as the book's does. Without a value the number is NaN.
func Prometheus(address string) func(ctx context.Context, query string) (float64, error) {
	p := measure.Prometheus{Address: address, Client: http.DefaultClient, MaxAnswer: maxAnswer}
	return func(ctx context.Context, query string) (float64, error) {
		answer, status, err := p.Get(ctx, "query", url.Values{"query": {query}})
		if err != nil {
			return 0, fmt.Errorf("prometheus at %s: %w", address, err)
		}
		value, err := valueOf(answer)
		if err != nil {
			return 0, fmt.Errorf("prometheus at %s: %s: %w", address, status, err)
		}
		return value, nil
	}
}

// valueOf reads the first value of an answer to an instant query.
func valueOf(body []byte) (float64, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value []any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, fmt.Errorf("this is no answer to a query: %w", err)
	}
	if answer.Status != "success" {
		return 0, errors.New("the query failed: " + answer.Error)
	}
	if len(answer.Data.Result) == 0 {
		return math.NaN(), nil
	}
	value := answer.Data.Result[0].Value
	if len(value) != 2 {
		return 0, fmt.Errorf("a value has %d parts, want time and number", len(value))
	}
	text, _ := value[1].(string)
	return strconv.ParseFloat(text, 64)
}
