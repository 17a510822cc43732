//go:build unix && !solaris && !aix

package witness

import (
	"fmt"
	"os"
	"syscall"
)

// lock takes the file's lock until it is closed.
func lock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR { //nolint:errorlint // Flock returns a bare Errno
			return err
		}
	}
}

func mapFile(f *os.File, size int) ([]byte, error) {
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return b, nil
}

func unmap(b []byte) error { return syscall.Munmap(b) }
