package manifest

import (
	"github.com/remit-olm/remit/pkg/catalog"
)

// CheckAliases refuses YAML whose aliases repeat too much. It must be called before the text is
// turned into JSON.
func CheckAliases(data []byte) error {
	return catalog.CheckAliases(data, catalog.MaxContentBytes/4)
}
