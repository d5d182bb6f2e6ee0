package source

import "fmt"

// NotUsed returns the problem of an object of a kind that exists and that Lateen does not read.
func NotUsed(object Key, apiVersion string) Problem {
	return Problem{
		Object:  object,
		Message: fmt.Sprintf("%s of %s is not used by Lateen (yet)", object.Kind.Name(), apiVersion),
	}
}
