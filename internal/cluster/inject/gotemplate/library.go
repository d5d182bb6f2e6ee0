package gotemplate

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/mitchellh/copystructure"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// unwanted are functions of Sprig that answer by chance or by the clock, or take a long time: they
// make keys and hash passwords. A Pod that is injected twice must get the same both times.
var unwanted = []string{
	"bcrypt", "htpasswd", "derivePassword", "genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert",
	"genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "buildCustomCert", "encryptAES", "decryptAES",
	"randInt", "shuffle", "ago", "unixEpoch", "toDate", "mustToDate", "mustDateModify", "durationRound",
}

// Library returns what all templates may call: the functions of Sprig that depend on their
// arguments alone and change none of them but dictionaries, and toYaml and fromYaml.
func Library() Funcs {
	all := sprig.HermeticTxtFuncMap()
	for _, name := range unwanted {
		delete(all, name)
	}
	for _, name := range []string{"merge", "mustMerge", "mergeOverwrite", "mustMergeOverwrite"} {
		all[name] = mergingCopies(all[name])
	}
	maps.Copy(all, Funcs{
		"toYaml":   func(value any) (string, error) { raw, err := yaml.Marshal(value); return string(raw), err },
		"fromYaml": fromYAML, "fromJson": fromYAML, "mustFromJson": fromYAML, // JSON is YAML
		"print":     fmt.Sprint,
		"println":   fmt.Sprintln,
		"printf":    printf,
		"html":      template.HTMLEscaper,
		"js":        template.JSEscaper,
		"urlquery":  template.URLQueryEscaper,
		"call":      func(...any) (any, error) { return nil, errors.New("there is nothing to call") },
		"set":       set,
		"keys":      keys,
		"values":    values,
		"sortAlpha": sortAlpha,
	})
	return all
}

func fromYAML(text string) (value any, err error) {
	err = untrusted.Pod().YAML(text, &value)
	return value, err
}

// set gives a dictionary a copy of a value, so that none holds itself.
func set(of map[string]any, key string, value any) (map[string]any, error) {
	own, err := copystructure.Copy(value)
	if err == nil {
		of[key] = own
	}
	return of, err
}

// mergingCopies has dictionaries merged that share nothing, so that none comes to hold itself.
func mergingCopies(merge any) func(into map[string]any, from ...map[string]any) (any, error) {
	return func(into map[string]any, from ...map[string]any) (any, error) {
		args := []reflect.Value{reflect.ValueOf(into)}
		for _, one := range from {
			own, err := copystructure.Copy(one)
			if err != nil {
				return nil, err
			}
			args = append(args, reflect.ValueOf(own))
		}
		out := reflect.ValueOf(merge).Call(args)
		if len(out) == 2 && !out[1].IsNil() {
			err, _ := out[1].Interface().(error)
			return nil, err
		}
		return out[0].Interface(), nil
	}
}

// keys are those of dictionaries, sorted.
func keys(of ...map[string]any) []string {
	all := []string{}
	for _, one := range of {
		all = slices.AppendSeq(all, maps.Keys(one))
	}
	slices.Sort(all)
	return all
}

// values are those of a dictionary, in the order of keys.
func values(of map[string]any) []any {
	all := []any{}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, of[key])
	}
	return all
}

// sortAlpha sorts a copy, since the list may be of the mesh configuration.
func sortAlpha(list any) []string {
	v := reflect.ValueOf(list)
	if k := v.Kind(); k != reflect.Slice && k != reflect.Array {
		return []string{fmt.Sprint(list)}
	}
	var all []string
	for i := range v.Len() {
		all = append(all, fmt.Sprint(v.Index(i).Interface()))
	}
	slices.Sort(all)
	return all
}

// printf bounds the width of what it formats, because fmt does not, and uses each value once.
func printf(format string, values ...any) (string, error) {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		verb := format[i+1:]
		end := strings.IndexFunc(verb, func(r rune) bool { return !strings.ContainsRune("+-# 0123456789.*[]", r) })
		if end < 0 {
			break // fmt says that the verb is missing
		}
		digits := 0
		for _, r := range verb[:end] {
			if digits++; r < '0' || r > '9' {
				digits = 0
			}
			if digits > 3 || r == '*' || r == '[' {
				return "", errors.New("want a width below 1000, and the values in their order")
			}
		}
		i += end + 1
	}
	return fmt.Sprintf(format, values...), nil
}
