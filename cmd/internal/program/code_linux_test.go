package program

import (
	"debug/elf"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
)

// mapped returns the number of bytes of files, including the executable, that this process has mapped and that are in memory.
func mapped(t *testing.T) uint64 {
	t.Helper()
	self, err := procfs.Self()
	require.NoError(t, err)
	status, err := self.NewStatus()
	require.NoError(t, err)
	return status.RssFile
}

func TestReleasesPagesOfTheExecutableThatAreNotInUse(t *testing.T) {
	file, err := elf.Open("/proc/self/exe")
	require.NoError(t, err)
	defer file.Close()
	if file.Type != elf.ET_EXEC {
		t.Skip("the executable is relocatable, so its pages must not be released")
	}
	section := file.Section(".rodata")
	content, err := section.Data()
	require.NoError(t, err)
	before := mapped(t)
	require.NoError(t, releaseCode())
	require.Less(t, mapped(t), before/2)

	again, err := section.Data()
	require.NoError(t, err)
	require.Equal(t, content, again, "the program continues to run")
}
