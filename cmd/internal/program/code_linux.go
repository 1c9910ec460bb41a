package program

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"
)

// releaseCode unmaps the pages of the program's executable. When the program uses one of them, the kernel maps it again from the page
// cache, or reads the file if the page is no longer cached. The others no longer count as resident memory. Unless another process maps
// them, they are among the first that the kernel reclaims when memory becomes scarce.
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
		// Pages that are unmapped while they are young count as recently used, so they are made old first. Kernels before 5.4 do not
		// support this.
		_ = m.advise(unix.MADV_COLD)
		if err := m.advise(unix.MADV_DONTNEED); err != nil {
			return err
		}
	}
	return nil
}

// mapping is a part of the program's memory: the address of its first byte, and the address after its last.
type mapping struct{ start, end uintptr }

// advise calls madvise(2).
func (m mapping) advise(advice uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, m.start, m.end-m.start, advice); errno != 0 {
		return fmt.Errorf("advise the kernel about %d bytes of the executable: %w", m.end-m.start, errno)
	}
	return nil
}

// unchangedPattern matches a mapping in /proc/self/smaps that the program cannot write, and of which no page differs from the file,
// neither in memory (Anonymous) nor in swap. The groups are the two addresses and the file.
var unchangedPattern = regexp.MustCompile(`(?m)^([0-9a-f]+)-([0-9a-f]+) .-.. \S+ \S+ \d+ *(.*)\n` +
	`(?:[A-Z].*\n)*?Anonymous: +0 kB\n(?:[A-Z].*\n)*?Swap: +0 kB$`)

// unchangedMappings returns the mappings of a file that the program cannot write and of which every page has the content of the file.
// Pages differ from the file if the executable was relocated when it was loaded, or if a debugger or a tracer has set breakpoints.
// Their content would be lost, as is a breakpoint that is set at the same moment. The format is described in proc_pid_smaps(5).
func unchangedMappings(smaps, file string) []mapping {
	var out []mapping
	for _, match := range unchangedPattern.FindAllStringSubmatch(smaps, -1) {
		start, err := strconv.ParseUint(match[1], 16, 64)
		end, err2 := strconv.ParseUint(match[2], 16, 64)
		if err == nil && err2 == nil && match[3] == file {
			out = append(out, mapping{start: uintptr(start), end: uintptr(end)})
		}
	}
	return out
}
