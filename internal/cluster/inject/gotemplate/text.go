package gotemplate

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// Library returns the functions of sprig that templates of Pods use, under sprig's names and with
// its order of arguments. What reads the environment, the clock, the network or random numbers is
// not among them.
func Library() Funcs {
	all := Funcs{}
	for _, some := range []Funcs{
		textFunctions(), formatFunctions(), numberFunctions(), listFunctions(), dictFunctions(),
	} {
		maps.Copy(all, some)
	}
	return all
}

func textFunctions() Funcs {
	return Funcs{
		"lower":      strings.ToLower,
		"upper":      strings.ToUpper,
		"trim":       strings.TrimSpace,
		"trimAll":    func(cutset, s string) string { return strings.Trim(s, cutset) },
		"trimPrefix": func(prefix, s string) string { return strings.TrimPrefix(s, prefix) },
		"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"nospace":    func(s string) string { return strings.Join(strings.Fields(s), "") },
		"hasPrefix":  func(prefix, s string) bool { return strings.HasPrefix(s, prefix) },
		"hasSuffix":  func(suffix, s string) bool { return strings.HasSuffix(s, suffix) },
		"contains":   func(part, s string) bool { return strings.Contains(s, part) },
		"replace":    replace,
		"repeat":     repeat,
		"trunc":      trunc,
		"substr":     substr,
		"quote":      func(values ...any) string { return quoted(values, strconv.Quote) },
		"squote": func(values ...any) string {
			return quoted(values, func(s string) string { return "'" + s + "'" })
		},
		"cat":        func(values ...any) string { return quoted(values, func(s string) string { return s }) },
		"indent":     func(n int, s string) (string, error) { return indent(n, s) },
		"nindent":    func(n int, s string) (string, error) { s, err := indent(n, s); return "\n" + s, err },
		"toString":   text,
		"regexMatch": func(pattern, s string) (bool, error) { return regexp.MatchString(pattern, s) },
		"regexFind": func(pattern, s string) (string, error) {
			r, err := regexp.Compile(pattern)
			if err != nil {
				return "", err
			}
			return r.FindString(s), nil
		},
		"regexReplaceAll": func(pattern, s, by string) (string, error) {
			r, err := regexp.Compile(pattern)
			if err != nil {
				return "", err
			}
			return r.ReplaceAllString(s, by), nil
		},
	}
}

func formatFunctions() Funcs {
	return Funcs{
		"b64enc": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"b64dec": func(s string) (string, error) {
			raw, err := base64.StdEncoding.DecodeString(s)
			return string(raw), err
		},
		"sha256sum": func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) },
		"toJson":    func(value any) (string, error) { raw, err := json.Marshal(value); return string(raw), err },
		"toPrettyJson": func(value any) (string, error) {
			raw, err := json.MarshalIndent(value, "", "  ")
			return string(raw), err
		},
		"fromJson": fromYAML, // JSON is YAML
		"toYaml":   func(value any) (string, error) { raw, err := yaml.Marshal(value); return string(raw), err },
		"fromYaml": fromYAML,
		"fail":     func(message string) (string, error) { return "", errors.New(message) },
	}
}

func fromYAML(s string) (value any, err error) {
	err = untrusted.Pod().YAML(s, &value)
	return value, err
}

// text is a value as text, without quotes.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return string(v)
	}
	return printed(value)
}

// quoted joins the values that are there.
func quoted(values []any, quote func(string) string) string {
	var all []string
	for _, v := range values {
		if v != nil {
			all = append(all, quote(text(v)))
		}
	}
	return strings.Join(all, " ")
}

// replace and repeat bound what they return, since a short template could else ask for any size.
func replace(old, by, s string) (string, error) {
	if (strings.Count(s, old)+1)*len(by) > maxOutput {
		return "", fmt.Errorf("the result has more than %d bytes", maxOutput)
	}
	return strings.ReplaceAll(s, old, by), nil
}

func repeat(n int, s string) (string, error) {
	if n < 0 || n > maxOutput || n*len(s) > maxOutput {
		return "", fmt.Errorf("repeating %d times is not possible", n)
	}
	return strings.Repeat(s, n), nil
}

// trunc returns the first n bytes, or the last of a negative number.
func trunc(n int, s string) string {
	switch {
	case n >= 0 && n < len(s):
		return s[:n]
	case n < 0 && -n < len(s):
		return s[len(s)+n:]
	}
	return s
}

func substr(from, to int, s string) string {
	if to < 0 || to > len(s) {
		to = len(s)
	}
	return s[min(max(from, 0), to):to]
}

// indent puts n spaces before each line.
func indent(n int, s string) (string, error) {
	const most = 1000
	if n < 0 || n > most || (strings.Count(s, "\n")+1)*n > maxOutput {
		return "", fmt.Errorf("indenting by %d is not possible", n)
	}
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(s, "\n", "\n"+pad), nil
}

func numberFunctions() Funcs {
	return Funcs{
		"int":   func(value any) int { return int(integer(value)) },
		"int64": integer,
		"atoi":  func(s string) int { n, _ := strconv.Atoi(s); return n },
		"add":   func(values ...any) int64 { return fold(values, func(a, b int64) int64 { return a + b }) },
		"mul":   func(values ...any) int64 { return fold(values, func(a, b int64) int64 { return a * b }) },
		"sub":   func(a, b any) int64 { return integer(a) - integer(b) },
		"div":   func(a, b any) int64 { return integer(a) / integer(b) }, // a panic is an error
		"mod":   func(a, b any) int64 { return integer(a) % integer(b) },
		"add1":  func(a any) int64 { return integer(a) + 1 },
		"max":   func(values ...any) int64 { return fold(values, func(a, b int64) int64 { return max(a, b) }) },
		"min":   func(values ...any) int64 { return fold(values, func(a, b int64) int64 { return min(a, b) }) },
	}
}

// integer returns a number or a text as an integer, and 0 of all else.
func integer(value any) int64 {
	v := indirect(reflect.ValueOf(value))
	switch {
	case v.CanInt():
		return v.Int()
	case v.CanFloat():
		return int64(v.Float())
	case v.Kind() == reflect.String:
		n, _ := strconv.ParseInt(v.String(), 10, 64)
		return n
	case v.Kind() == reflect.Bool && v.Bool():
		return 1
	}
	return 0
}

func fold(values []any, f func(a, b int64) int64) int64 {
	if len(values) == 0 {
		return 0
	}
	total := integer(values[0])
	for _, v := range values[1:] {
		total = f(total, integer(v))
	}
	return total
}
