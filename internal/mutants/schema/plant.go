package schema

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Mutant is a change of a tree: files by their slashed paths, with what stands in them then.
type Mutant struct {
	Number int // from 1 on; no two are alike
	Files  map[string]string
}

// Plant writes the mutants into a tree, as far as they can be chosen by Env. It answers the numbers of the others.
// There must be no mutants in the tree yet.
func Plant(tree string, mutants []Mutant) (alone []int, err error) {
	p := &planter{tree: tree, gos: map[string]*planted{}, texts: map[string][]text{}, embeds: map[string]map[string]string{}, names: map[string]string{}}
	for _, m := range mutants {
		ok, err := p.add(m)
		if err != nil {
			return nil, fmt.Errorf("mutant %d: %w", m.Number, err)
		}
		if !ok {
			alone = append(alone, m.Number)
		}
	}
	return alone, p.write()
}

type planter struct {
	tree   string
	gos    map[string]*planted
	texts  map[string][]text            // by package
	embeds map[string]map[string]string // by package, by file: the variable
	names  map[string]string            // of packages that embed something
}

// planted is a Go file and the versions of its functions.
type planted struct {
	*source
	versions map[string][]body
}

type body struct {
	mutant int
	text   string
}

// A text is an embedded file of a mutant's.
type text struct {
	mutant         int
	variable, file string // below the package
	content        string
}

// add notes a mutant. It is false if this one has to be built alone.
func (p *planter) add(m Mutant) (bool, error) {
	type change struct {
		file *planted
		keys []string
		from *source
	}
	var changes []change
	var texts []text
	var folders []string
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		if path.Ext(name) != ".go" {
			folder, t, err := p.embedded(name)
			if err != nil || t.variable == "" {
				return false, err
			}
			t.mutant, t.content = m.Number, m.Files[name]
			texts, folders = append(texts, t), append(folders, folder)
			continue
		}
		file, err := p.goFile(name)
		if err != nil {
			return false, err
		}
		from, err := parse(name, m.Files[name])
		if err != nil {
			return false, nil // whoever builds it alone sees why
		}
		keys, ok := file.changed(from)
		if !ok {
			return false, nil
		}
		changes = append(changes, change{file, keys, from})
	}
	for _, c := range changes {
		for _, key := range c.keys {
			c.file.versions[key] = append(c.file.versions[key], body{m.Number, c.from.body(key)})
		}
	}
	for i, t := range texts {
		p.texts[folders[i]] = append(p.texts[folders[i]], t)
	}
	return true, nil
}

func (p *planter) goFile(name string) (*planted, error) {
	if f := p.gos[name]; f != nil {
		return f, nil
	}
	content, err := os.ReadFile(filepath.Join(p.tree, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	s, err := parse(name, string(content))
	if err != nil {
		return nil, err
	}
	p.gos[name] = &planted{s, map[string][]body{}}
	return p.gos[name], nil
}

// embedding finds a single file that is embedded as a string.
var embedding = regexp.MustCompile(`(?m)^\s*//go:embed (\S+)\n\s*(?:var )?(\w+) +string$`)

var packageClause = regexp.MustCompile(`(?m)^package (\w+)`)

// embedded finds the package above a file that embeds it as a string, and its variable.
func (p *planter) embedded(name string) (folder string, t text, err error) {
	for folder = path.Dir(name); ; folder = path.Dir(folder) {
		if p.embeds[folder] == nil {
			p.embeds[folder] = map[string]string{}
			files, err := filepath.Glob(filepath.Join(p.tree, filepath.FromSlash(folder), "*.go"))
			if err != nil {
				return "", text{}, err
			}
			for _, f := range files {
				content, err := os.ReadFile(f)
				if err != nil {
					return "", text{}, err
				}
				if name := packageClause.FindSubmatch(content); name != nil && !strings.HasSuffix(f, "_test.go") {
					p.names[folder] = string(name[1])
				}
				for _, found := range embedding.FindAllStringSubmatch(string(content), -1) {
					p.embeds[folder][found[1]] = found[2]
				}
			}
		}
		file := strings.TrimPrefix(name, folder+"/")
		if v := p.embeds[folder][file]; v != "" {
			return folder, text{variable: v, file: file}, nil
		}
		if folder == "." {
			return "", text{}, nil
		}
	}
}

// write puts everything into the tree.
func (p *planter) write() error {
	packages := map[string]string{} // by folder and name of the package: whether only its tests have mutants
	for name, f := range p.gos {
		if len(f.versions) == 0 {
			continue
		}
		if err := p.put(name, f.render()); err != nil {
			return err
		}
		id := path.Dir(name) + " " + f.file.Name.Name
		if !strings.HasSuffix(name, "_test.go") {
			packages[id] = "aaa_mutant.go"
		} else if packages[id] == "" {
			packages[id] = "aaa_mutant_" + f.file.Name.Name + "_test.go"
		}
	}
	for folder := range p.texts {
		packages[folder+" "+p.names[folder]] = "aaa_mutant.go"
	}
	for id, file := range packages {
		folder, name, _ := strings.Cut(id, " ")
		var texts []text
		if file == "aaa_mutant.go" {
			texts = p.texts[folder]
		}
		if err := p.put(path.Join(folder, file), chooser(name, texts)); err != nil {
			return err
		}
		for _, t := range texts {
			if err := p.put(path.Join(folder, t.name()), t.content); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *planter) put(name, content string) error {
	return os.WriteFile(filepath.Join(p.tree, filepath.FromSlash(name)), []byte(content), 0o600)
}

// name is where the text of a mutant stands beside that of the others.
func (t text) name() string { return t.file + "." + version(t.mutant) }

// chooser is the file of a package that knows which mutant is on. Its name makes it the first one, so that an
// embedded text is exchanged before anybody makes something of it.
func chooser(name string, texts []text) string {
	var b, vars, cases strings.Builder
	fmt.Fprintf(&b, "package %s\n\nimport (\n\t_ \"embed\"\n\t\"os\"\n\t\"strconv\"\n)\n\n", name)
	for _, t := range texts {
		fmt.Fprintf(&vars, "\n//go:embed %s\nvar %s%s string\n", t.name(), t.variable, version(t.mutant))
		fmt.Fprintf(&cases, "\tcase %d:\n\t\t%s = %s%s\n", t.mutant, t.variable, t.variable, version(t.mutant))
	}
	fmt.Fprintf(&b, `var mutantThatIsOn = func() int {
	n, _ := strconv.Atoi(os.Getenv(%q))
	switch n {
%s	}
	return n
}()
%s`, Env, cases.String(), vars.String())
	return b.String()
}

// render is the file with a way to the other versions of its functions, and these.
func (f *planted) render() string {
	keys := slices.SortedFunc(maps.Keys(f.versions), func(a, b string) int {
		return int(f.funcs[a].Pos() - f.funcs[b].Pos())
	})
	var b, versions strings.Builder
	from := 0
	for _, key := range keys {
		fn := f.funcs[key]
		form := f.form(fn)
		var mutants []int
		for _, v := range f.versions[key] {
			mutants = append(mutants, v.mutant)
			fmt.Fprintf(&versions, "\n"+form.head+"%s\n", version(v.mutant), v.text)
		}
		b.WriteString(f.text[from:f.at(fn.Type.Func)])
		fmt.Fprintf(&b, form.head, "")
		b.WriteString("{" + form.goThere(mutants))
		from = f.at(fn.Body.Lbrace) + 1
	}
	b.WriteString(f.text[from:])
	return b.String() + versions.String()
}

// At answers the mutant whose version of a function stands at a line of a file of the tree; 0: none.
func At(tree, name string, line int) int {
	content, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(name)))
	if err != nil {
		return 0
	}
	s, err := parse(name, string(content))
	if err != nil {
		return 0
	}
	for _, f := range s.funcs {
		if s.fset.Position(f.Pos()).Line <= line && line <= s.fset.Position(f.End()).Line {
			return versionOf(f.Name.Name)
		}
	}
	return 0
}
