package program

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestOnlyUnchangedPagesOfTheExecutableAreReleased(t *testing.T) {
	const smaps = `00400000-01cae000 r-xp 00000000 fe:00 123 /remit/olm
Size:              25272 kB
Rss:               20060 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
01cae000-037c3000 r--p 018ae000 fe:00 123                /remit/olm
Rss:               22224 kB
Anonymous:             4 kB
Swap:                  0 kB
037c3000-03885000 rw-p 033c3000 fe:00 123                /remit/olm
Anonymous:             0 kB
Swap:                  0 kB
03885000-05926000 rw-p 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
05926000-05930000 r--p 00000000 fe:00 124                /remit/olm (deleted)
Anonymous:             0 kB
Swap:                  0 kB
05930000-05931000 r--p 00000000 fe:00 123                /remit/olm
Anonymous:             0 kB
Swap:                  4 kB
05931000-05932000 r--p 00000000 fe:00 123                /remit/olm
Rss:                   4 kB
7f0000000000-7f0000001000 r--p 00000000 fe:00 125        /etc/localtime
Anonymous:             0 kB
Swap:                  0 kB
7ffe00000000-7ffe00002000 r-xp 00000000 00:00 0          [vdso]
Anonymous:             0 kB
Swap:                  0 kB
`
	require.Equal(t, []mapping{{0x400000, 0x1cae000}}, unchangedMappings(smaps, "/remit/olm"))
	require.Equal(t, []mapping{{0x5926000, 0x5930000}}, unchangedMappings(smaps, "/remit/olm (deleted)"))
	require.Empty(t, unchangedMappings("00400000-01cae000 r-xp\nRss: 0 kB\n", "/remit/olm"), "another format")
}

// mapped returns the KiB of files, which include the executable, that this process has mapped and that are in memory.
func mapped(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kib
}

func TestReleasesPagesOfTheExecutableThatAreNotInUse(t *testing.T) {
	executable, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	for _, m := range unchangedMappings(string(smaps), executable) { // another test may have released them
		require.NoError(t, m.advise(unix.MADV_POPULATE_READ))
	}
	before := mapped(t)
	require.NoError(t, releaseCode())
	require.Less(t, mapped(t), before/2)
	require.NoError(t, releaseCode(), "the program continues to run")
}
