package untrusted

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lateen-mesh/lateen/internal/testkit/cost"
)

// costly are numbers that resource.ParseQuantity computes for hours, or with much memory.
func costly() []string {
	return []string{
		"11111111111111111111e1000000000", "1e1000000000", "e1000000000", "-1e1000000000", "+1.5E+999999999",
		"1e-1000000000", ".1e1000000000", " 1e1000000000", "\t1e1000000000 ", "0e1000000000", "1e100",
		strings.Repeat("9", 1<<20), "0." + strings.Repeat("1", 1<<20), "1E" + strings.Repeat("0", 100) + "1000000000",
	}
}

func TestQuantitiesThatTakeLongAreRefused(t *testing.T) {
	for _, text := range costly() {
		_, err := Quantity(text)
		require.ErrorIs(t, err, ErrCostly, "%.40s", text)
	}
	for _, text := range []string{
		"0", "100m", "1.5", "64Mi", "1e9", "12E6", "-1", "9223372036854775807", "1E", "500Ei",
	} {
		got, err := Quantity(text)
		require.NoError(t, err, text)
		require.Equal(t, resource.MustParse(text), got)
	}
	for _, text := range []string{"", "fast", "1x1000000000"} {
		_, err := Quantity(text)
		require.Error(t, err, text)
		require.NotErrorIs(t, err, ErrCostly, "the parser says what is wrong with %q", text)
	}
}

// Only fields that are quantities are held to what a quantity may be. Each one is, wherever it
// stands in a type, by whatever case its name is written in, and also the first of two.
func TestQuantitiesAreFoundByTheirType(t *testing.T) {
	const number = "1e1000000000"
	for text, want := range map[string]string{
		`{"metadata": {"labels": {"commit": "` + number + `"}, "annotations": {"a": "` + number + `"}}}`: "",
		`{"spec": {"containers": [{"name": "a", "env": [{"name": "A", "value": "` + number + `"}]}]}}`:   "",
		`{"unknown": {"resources": {"limits": {"cpu": ` + number + `}}}}`:                                "",

		`{"spec": {"containers": [{}, {"resources": {"limits": {"cpu": "` + number + `"}}}]}}`: "containers[1].resources",
		`{"spec": {"containers": [{"resources": {"limits": {"cpu": ` + number + `}}}]}}`:       "containers[0].resources",
		`{"spec": {"overhead": {"cpu": "` + number + `"}}}`:                                    "overhead[cpu]",
		`{"spec": {"Overhead": {"cpu": "` + number + `"}}}`:                                    "Overhead[cpu]",
		`{"spec": {"overhead": {"cpu": "` + number + `"}, "overhead": {"cpu": "1"}}}`:          "overhead[cpu]",
		`{"spec": {"volumes": [{"emptyDir": {"sizeLimit": "` + number + `"}}]}}`:               "emptyDir.sizeLimit",

		`{"spec": {"initContainers": [{"env": [{"valueFrom": {"resourceFieldRef": {"divisor": "1e999"}}}]}]}}`: "divisor =",
	} {
		err := Pod().Typed([]byte(text), &corev1.Pod{})
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorIs(t, err, ErrCostly, text)
		require.ErrorContains(t, err, want)
	}
	err := Pod().Typed([]byte(`{"spec": {"template": {"spec": {"overhead": {"cpu": "1e999"}}}}}`), &appsv1.Deployment{})
	require.ErrorContains(t, err, "spec.template.spec.overhead[cpu]")
}

func TestTextsAreBounded(t *testing.T) {
	l := Limits{Bytes: 100, Values: 5, Depth: 3}
	for text, want := range map[string]string{
		`{"a": [1, "b", null]}`:          "",
		`{"a": "[[[[[[[[\"1,2,3,4,5"}`:   "",
		`[[], [], [], []]`:               "",
		`[1, 2, 3, 4, 5]`:                "6 values",
		`{"a": 1, "b": {}, "c": [{},1]}`: "6 values",
		`[[[[]]]]`:                       "deeper than 3",
		strings.Repeat(" ", 101):         "101 bytes",
	} {
		var into any
		err := l.JSON([]byte(text), &into)
		if want == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, want, text)
		}
	}
}

// Aliases of YAML count as what they stand for.
func TestAliasesAreBounded(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'h'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 9) + "]\n"
	}
	var into map[string]any
	require.ErrorIs(t, Annotation().YAML(bomb, &into), ErrAliases)
	require.ErrorIs(t, CheckFile([]byte(bomb)), ErrAliases)
	require.ErrorIs(t, CheckFile([]byte("a: 1\n---\n"+bomb)), ErrAliases)
	require.ErrorIs(t, Annotation().YAML("a: &a [*a]", &into), ErrAliases)
	require.NoError(t, Annotation().YAML("a: &a [1]\nb: *a\nc: 2*3 & 4", &into))
	require.Equal(t, map[string]any{"a": []any{1.0}, "b": []any{1.0}, "c": "2*3 & 4"}, into)
	require.ErrorContains(t, Annotation().YAML(strings.Repeat("[],", 10_000), &into), "values")
}

// FuzzTyped: whatever a text says, it costs little to decode it, and what is decoded is what the
// decoder makes of it.
func FuzzTyped(f *testing.F) {
	for _, number := range costly() {
		f.Add([]byte(`{"spec": {"overhead": {"cpu": ` + number + `}}}`))
		quoted, err := json.Marshal(number)
		require.NoError(f, err)
		f.Add([]byte(`{"spec": {"containers": [{"resources": {"limits": {"cpu": ` + string(quoted) + `}}}]}}`))
	}
	f.Add([]byte(`{"metadata": {"labels": {"commit": "12e45678"}}}`))
	f.Add([]byte(`{"spec": {"containers": [` + strings.Repeat(`[],`, 1000) + `[]]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		done := cost.Bound(t, 64<<20)
		defer done()
		var pod corev1.Pod
		if Pod().Typed(text, &pod) == nil {
			require.True(t, json.Valid(text))
		}
	})
}
