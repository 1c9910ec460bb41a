package program

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseCode unmaps the pages of the program's executable. The kernel maps those that the program still needs again, from its page
// cache, when they are used. The others, which only the start of the program needed, no longer count as its resident memory, and are
// the first that the kernel reuses when memory becomes scarce.
func releaseCode() error {
	executable, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program's executable: %w", err)
	}
	mappings, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("list the memory of the program: %w", err)
	}
	for _, m := range unchangedMappings(string(mappings), executable) {
		for _, advice := range []uintptr{unix.MADV_COLD, unix.MADV_DONTNEED} {
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, advice); errno != 0 {
				return fmt.Errorf("release %d bytes of the executable: %w", m.end-m.start, errno)
			}
		}
	}
	return nil
}

// mapping is a part of the program's memory: the address of its first byte, and the address after its last.
type mapping struct{ start, end uintptr }

// mappingPattern matches the description of a mapping in /proc/self/smaps: addresses, permissions, and file; and then, in a line of its
// own, the amount of memory in it that is not, or no longer, the content of the file.
var mappingPattern = regexp.MustCompile(`(?m)^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ *(.*)\n(?:[A-Z].*\n)*?Anonymous: +(\d+) kB$`)

// unchangedMappings returns the mappings of a file that the program cannot write and of which every page has the content of the file.
// Pages differ from the file if the executable was relocated when it was loaded, or if a debugger or a tracer has set breakpoints.
// Their content would be lost. The format is described in proc_pid_smaps(5).
func unchangedMappings(smaps, file string) []mapping {
	var out []mapping
	for _, match := range mappingPattern.FindAllStringSubmatch(smaps, -1) {
		permissions, mapped, anonymous := match[3], match[4], match[5]
		start, err := strconv.ParseUint(match[1], 16, 64)
		end, err2 := strconv.ParseUint(match[2], 16, 64)
		if err == nil && err2 == nil && mapped == file && anonymous == "0" && !strings.Contains(permissions, "w") {
			out = append(out, mapping{start: uintptr(start), end: uintptr(end)})
		}
	}
	return out
}
