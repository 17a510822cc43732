package house

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	linkIn    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingIn = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// documents are the Markdown files of the repository.
func documents(t *testing.T) map[string]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "*.md")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Skipf("no git, or no checkout: %v", err)
	}
	texts := map[string]string{}
	for name := range strings.FieldsSeq(string(names)) {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		require.NoError(t, err)
		texts[name] = string(text)
	}
	require.Greater(t, len(texts), 15)
	return texts
}

// anchors are what GitHub makes of the headings of a document.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, heading := range headingIn.FindAllStringSubmatch(text, -1) {
		slug := notInSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading[1])), "")
		all[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return all
}

// A link inside the repository leads to a file or a folder, and to a heading that is there.
func TestLinksOfTheDocumentsLeadSomewhere(t *testing.T) {
	texts, found := documents(t), 0
	for name, text := range texts {
		for _, link := range linkIn.FindAllStringSubmatch(text, -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			found++
			file, anchor, _ := strings.Cut(link[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(target)))
			require.NoError(t, err, "%s links to %s", name, link[1])
			require.True(t, anchor == "" || anchors(texts[target])[anchor], "%s links to %s", name, link[1])
		}
	}
	require.Greater(t, found, 50)
}
