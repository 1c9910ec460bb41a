package manifest

import (
	"github.com/remit-olm/remit/pkg/catalog"
	"github.com/remit-olm/remit/pkg/lib/yamlalias"
)

// CheckAliases refuses YAML whose aliases repeat too much. It must be called before the text is
// turned into JSON.
func CheckAliases(data []byte) error {
	return yamlalias.Check(data, catalog.MaxContentBytes)
}
