package process

import "fmt"

// NotInherited explains to a person that another command runs this one.
func NotInherited(err error, parent string) error {
	return fmt.Errorf(
		"%w; this command is started by %s, which it inherits its sockets from. The control plane alone is lateen "+
			"serve",
		err,
		parent,
	)
}
