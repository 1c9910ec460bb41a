package manifest

import (
	"github.com/remit-olm/remit/pkg/catalog"
)

// CheckAliases refuses YAML whose aliases expand too much. It must be called before the text is converted to JSON.
func CheckAliases(data []byte) error {
	return catalog.CheckAliases(data, catalog.MaxContentBytes/4)
}
