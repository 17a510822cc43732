//go:build unix && !solaris && !aix

package witness

import (
	"fmt"
	"os"
	"syscall"

	"github.com/edsrzf/mmap-go"
)

// lock takes the file's lock. Closing the file does not free it as long as a mapping keeps
// the open file alive.
func lock(f *os.File) error { return flock(f, syscall.LOCK_EX) }

func unlock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if err != syscall.EINTR {
			return err
		}
	}
}

func mapFile(f *os.File, size int) ([]byte, error) {
	b, err := mmap.MapRegion(f, size, mmap.RDWR, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return b, nil
}

func unmap(b []byte) error {
	m := mmap.MMap(b)
	return m.Unmap()
}
