package interop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// buildLimit bounds Maven, which may have to fetch Redisson and its own plugins first.
const buildLimit = 10 * time.Minute

// buildDriver builds the driver unless that was done for the same sources before, and returns its class
// path. Of two builds at the same time one is kept.
func buildDriver() (classpath string, err error) {
	sum, err := hashOf(javaDir)
	if err != nil {
		return "", err
	}
	built := filepath.Join(binDir, sum)
	classpath = filepath.Join(built, "interop.jar") + string(filepath.ListSeparator) + filepath.Join(built, "lib", "*")
	if _, err := os.Stat(built); err == nil {
		return classpath, nil
	}
	if err := os.MkdirAll(binDir, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(binDir, "build-") // so that the sources stay clean
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.CopyFS(work, os.DirFS(javaDir)); err != nil {
		return "", err
	}
	if err := maven(work); err != nil {
		return "", err
	}
	target := filepath.Join(work, "target")
	if err := os.Rename(target, built); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return classpath, nil
}

func maven(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mvn", "-q", "-B", "package")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn package: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// hashOf names the contents of a folder.
func hashOf(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(h, "%s %d\n%s\n", filepath.ToSlash(p), len(text), text)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:16], err
}
