package program

import (
	"debug/elf"
	"fmt"

	"golang.org/x/sys/unix"
)

// releaseCode unmaps the pages of the executable that cannot be written. The kernel maps those that the program still needs again, from
// its page cache, when they are used. The others, which only the start of the program needed, no longer count as its resident memory,
// and are the first that the kernel reuses when memory becomes scarce.
func releaseCode() error {
	file, err := elf.Open("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("read the program's executable: %w", err)
	}
	defer file.Close()
	if file.Type != elf.ET_EXEC {
		return nil // the linker's relocations changed some of its pages, which are not in the file
	}
	for _, segment := range file.Progs {
		if segment.Type != elf.PT_LOAD || segment.Flags&elf.PF_W != 0 {
			continue
		}
		for _, advice := range []uintptr{unix.MADV_COLD, unix.MADV_DONTNEED} {
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(segment.Vaddr), uintptr(segment.Memsz), advice); errno != 0 {
				return fmt.Errorf("release %d bytes of the executable at %#x: %w", segment.Memsz, segment.Vaddr, errno)
			}
		}
	}
	return nil
}
