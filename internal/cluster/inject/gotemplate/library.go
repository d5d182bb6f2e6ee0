package gotemplate

import (
	"errors"
	"fmt"
	"maps"

	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// unwanted are functions of Sprig that answer by chance, or take a long time: they make keys and
// hash passwords. A Pod that is injected twice must get the same both times.
var unwanted = []string{
	"bcrypt", "htpasswd", "derivePassword", "genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert",
	"genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "buildCustomCert", "encryptAES", "decryptAES",
	"randInt", "shuffle", "ago", "unixEpoch", "toDate", "mustToDate", "mustDateModify",
}

// Library returns what all templates may call: the functions of Sprig that depend on their
// arguments alone, and toYaml and fromYaml.
func Library() Funcs {
	all := sprig.HermeticTxtFuncMap()
	for _, name := range unwanted {
		delete(all, name)
	}
	maps.Copy(all, Funcs{
		"toYaml":   func(value any) (string, error) { raw, err := yaml.Marshal(value); return string(raw), err },
		"fromYaml": fromYAML, "fromJson": fromYAML, "mustFromJson": fromYAML, // JSON is YAML
		"print":   fmt.Sprint,
		"println": fmt.Sprintln,
		"printf":  printf,
	})
	return all
}

func fromYAML(text string) (value any, err error) {
	err = untrusted.Pod().YAML(text, &value)
	return value, err
}

// printf bounds the width of what it formats, because fmt does not.
func printf(format string, values ...any) (string, error) {
	digits := 0
	for _, r := range format {
		if digits++; r < '0' || r > '9' {
			digits = 0
		}
		if digits > 3 || r == '*' {
			return "", errors.New("want a width below 1000")
		}
	}
	return fmt.Sprintf(format, values...), nil
}
