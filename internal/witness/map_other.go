//go:build !unix || solaris || aix

package witness

import (
	"errors"
	"os"
)

func lock(*os.File) error { return errors.ErrUnsupported }

func unlock(*os.File) error { return nil }

func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return nil }
