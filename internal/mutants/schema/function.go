package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// A source is a Go file, parsed.
type source struct {
	text  string
	fset  *token.FileSet
	file  *ast.File
	funcs map[string]*ast.FuncDecl // those with a body, by receiver and name
	rest  string                   // everything but the bodies
}

func parse(name, text string) (*source, error) {
	s := &source{text: text, fset: token.NewFileSet(), funcs: map[string]*ast.FuncDecl{}}
	var err error
	if s.file, err = parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	var rest strings.Builder
	from := 0
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		key := s.key(f)
		if s.funcs[key] != nil { // init, or a function named _
			continue
		}
		s.funcs[key] = f
		rest.WriteString(text[from:s.at(f.Body.Lbrace)])
		from = s.at(f.Body.Rbrace)
	}
	rest.WriteString(text[from:])
	s.rest = rest.String()
	return s, nil
}

// key names a function within its file.
func (s *source) key(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return s.between(f.Recv.Pos(), f.Recv.End()) + f.Name.Name
}

func (s *source) at(p token.Pos) int { return s.fset.Position(p).Offset }

func (s *source) between(from, to token.Pos) string { return s.text[s.at(from):s.at(to)] }

func (s *source) body(key string) string {
	f := s.funcs[key]
	return s.between(f.Body.Lbrace, f.Body.Rbrace+1)
}

// changed lists the functions whose bodies differ. It is false if anything else does.
func (s *source) changed(other *source) (keys []string, ok bool) {
	if s.rest != other.rest || len(s.funcs) != len(other.funcs) {
		return nil, false
	}
	for key, f := range s.funcs {
		if other.funcs[key] == nil {
			return nil, false
		}
		if s.body(key) == other.body(key) {
			continue
		}
		if !switchable(f) {
			return nil, false
		}
		keys = append(keys, key)
	}
	return keys, len(keys) > 0
}

// switchable tells whether another function can stand for this one. It cannot for one that recovers: only who is
// called by defer itself may.
func switchable(f *ast.FuncDecl) bool {
	if f.Recv == nil && (f.Name.Name == "init" || f.Name.Name == "main" || f.Name.Name == "_") {
		return false
	}
	recovers := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		if c, ok := n.(*ast.CallExpr); ok {
			id, ok := c.Fun.(*ast.Ident)
			recovers = recovers || ok && id.Name == "recover"
		}
		return !recovers
	})
	return !recovers
}

// A form is what a function needs to be known by to be called with what it was called with.
type form struct {
	head string // up to the body, with a name for each parameter
	call string // with a %s for the version
	void bool
}

// form names the parameters that have no name.
func (s *source) form(f *ast.FuncDecl) form {
	var head strings.Builder
	head.WriteString("func ")
	callee := f.Name.Name + "%s"
	if f.Recv != nil {
		field := f.Recv.List[0]
		name := nameOf(field, "receiver")
		head.WriteString("(" + name + " " + s.between(field.Type.Pos(), field.Type.End()) + ") ")
		callee = name + "." + callee
	}
	head.WriteString(f.Name.Name + "%s")
	if p := f.Type.TypeParams; p != nil {
		head.WriteString(s.between(p.Pos(), p.End()))
		callee += "[" + strings.Join(names(p), ", ") + "]"
	}
	var params, args []string
	for _, field := range f.Type.Params.List {
		kind := s.between(field.Type.Pos(), field.Type.End())
		_, many := field.Type.(*ast.Ellipsis)
		for range max(1, len(field.Names)) {
			params, args = append(params, ""), append(args, "")
		}
		for i := range max(1, len(field.Names)) {
			at := len(params) - max(1, len(field.Names)) + i
			name := "argument" + strconv.Itoa(at)
			if len(field.Names) > 0 && field.Names[i].Name != "_" {
				name = field.Names[i].Name
			}
			params[at], args[at] = name+" "+kind, name
			if many {
				args[at] += "..."
			}
		}
	}
	head.WriteString("(" + strings.Join(params, ", ") + ") ")
	if f.Type.Results != nil {
		head.WriteString(s.between(f.Type.Results.Pos(), f.Type.Results.End()) + " ")
	}
	return form{head.String(), callee + "(" + strings.Join(args, ", ") + ")", f.Type.Results == nil}
}

func nameOf(field *ast.Field, otherwise string) string {
	if len(field.Names) == 0 || field.Names[0].Name == "_" {
		return otherwise
	}
	return field.Names[0].Name
}

func names(list *ast.FieldList) []string {
	var all []string
	for _, field := range list.List {
		for _, n := range field.Names {
			all = append(all, n.Name)
		}
	}
	return all
}

// version is what is put after the name of a function that mutant number n has changed.
func version(n int) string { return "Mutant" + strconv.Itoa(n) }

// goThere is the first line of a function that has other versions.
func (f form) goThere(mutants []int) string {
	var b strings.Builder
	b.WriteString(" switch mutantThatIsOn {")
	for _, n := range mutants {
		call := fmt.Sprintf(f.call, version(n))
		if f.void {
			fmt.Fprintf(&b, " case %d: %s; return;", n, call)
		} else {
			fmt.Fprintf(&b, " case %d: return %s;", n, call)
		}
	}
	b.WriteString(" };")
	return b.String()
}

// versionOf reads the number back from the name of a version.
func versionOf(name string) int {
	i := strings.LastIndex(name, "Mutant")
	if i < 0 {
		return 0
	}
	n, _ := strconv.Atoi(name[i+len("Mutant"):])
	return n
}
