package generate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// others are what an operator is taken for by mistake.
var others = map[token.Token]struct {
	op   string
	with []token.Token
}{
	token.LSS: {"boundary", []token.Token{token.LEQ}}, token.LEQ: {"boundary", []token.Token{token.LSS}},
	token.GTR: {"boundary", []token.Token{token.GEQ}}, token.GEQ: {"boundary", []token.Token{token.GTR}},
	token.EQL: {"negation", []token.Token{token.NEQ}}, token.NEQ: {"negation", []token.Token{token.EQL}},
	token.LAND: {"junction", []token.Token{token.LOR}}, token.LOR: {"junction", []token.Token{token.LAND}},
	token.ADD: {"arithmetic", []token.Token{token.SUB}}, token.SUB: {"arithmetic", []token.Token{token.ADD}},
	token.MUL: {"arithmetic", []token.Token{token.QUO}}, token.QUO: {"arithmetic", []token.Token{token.MUL}},
	token.ADD_ASSIGN: {"arithmetic", []token.Token{token.SUB_ASSIGN}},
	token.SUB_ASSIGN: {"arithmetic", []token.Token{token.ADD_ASSIGN}},
	token.INC:        {"arithmetic", []token.Token{token.DEC}}, token.DEC: {"arithmetic", []token.Token{token.INC}},
}

type goFile struct {
	fset *token.FileSet
	text string
	all  []change
}

func ofGo(name, text string) ([]change, error) {
	g := &goFile{fset: token.NewFileSet(), text: text}
	f, err := parser.ParseFile(g.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			ast.Inspect(fn.Body, g.visit)
		}
	}
	return g.all, nil
}

func (g *goFile) at(p token.Pos) int { return g.fset.Position(p).Offset }

func (g *goFile) of(n ast.Node) string { return g.text[g.at(n.Pos()):g.at(n.End())] }

func (g *goFile) add(op string, from, to token.Pos, text string) {
	g.all = append(g.all, change{op, g.at(from), g.at(to), text})
}

func (g *goFile) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op != token.ADD || !strings.Contains(g.of(n), `"`) { // texts are only ever added
			g.operator(n.Op, n.OpPos)
		}
	case *ast.AssignStmt:
		g.operator(n.Tok, n.TokPos)
	case *ast.IncDecStmt:
		g.operator(n.Tok, n.TokPos)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			g.add("negation", n.Pos(), n.X.Pos(), "")
		}
	case *ast.BasicLit:
		g.number(n)
	case *ast.IfStmt:
		g.branch(n)
	case *ast.CaseClause:
		g.emptied(n.Colon+1, n.Body)
	case *ast.CommClause:
		g.emptied(n.Colon+1, n.Body)
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok {
			g.dropped(n, call)
		}
	case *ast.DeferStmt:
		g.dropped(n, n.Call)
	case *ast.GoStmt:
		g.dropped(n, n.Call)
	case *ast.CallExpr:
		g.swapped(n)
	case *ast.ReturnStmt:
		g.answers(n)
	case *ast.BranchStmt:
		if n.Label == nil && n.Tok == token.CONTINUE {
			g.add("branch", n.Pos(), n.End(), "break")
		}
	}
	return true
}

func (g *goFile) operator(op token.Token, at token.Pos) {
	for _, with := range others[op].with {
		g.add(others[op].op, at, at+token.Pos(len(op.String())), with.String())
	}
}

// number: off by one, or by a factor.
func (g *goFile) number(n *ast.BasicLit) {
	switch {
	case n.Kind != token.INT && n.Kind != token.FLOAT:
	case n.Value == "0":
		g.add("number", n.Pos(), n.End(), "1")
	case n.Value == "1":
		g.add("number", n.Pos(), n.End(), "2")
		g.add("number", n.Pos(), n.End(), "0")
	default:
		g.add("factor", n.Pos(), n.End(), "("+n.Value+" * 2)")
		g.add("factor", n.Pos(), n.End(), "("+n.Value+" / 2)")
	}
}

// branch: never taken, or always.
func (g *goFile) branch(n *ast.IfStmt) {
	cond := g.of(n.Cond)
	g.add("branch", n.Cond.Pos(), n.Cond.End(), "("+cond+") && false")
	g.add("branch", n.Cond.Pos(), n.Cond.End(), "("+cond+") || true")
}

// emptied: a case that does nothing. One of a single call is done already: that is dropped.
func (g *goFile) emptied(from token.Pos, body []ast.Stmt) {
	if len(body) == 1 {
		if _, ok := body[0].(*ast.ExprStmt); ok {
			return
		}
	}
	if len(body) > 0 {
		g.add("branch", from, body[len(body)-1].End(), "")
	}
}

// dropped: a call that is not made. What it was given is still worked out, or the compiler would say that nobody uses it.
func (g *goFile) dropped(whole ast.Stmt, call *ast.CallExpr) {
	if _, ok := call.Fun.(*ast.FuncLit); ok {
		g.add("call", whole.Pos(), whole.End(), "_ = "+g.of(call.Fun))
		return
	}
	var parts []string
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		if sel.Sel.Name == "Yield" { // where the simulation may go on with somebody else: nobody else sees it
			return
		}
		parts = append(parts, g.of(sel))
	}
	for _, a := range call.Args {
		parts = append(parts, g.of(a))
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString("_ = " + p)
	}
	g.add("call", whole.Pos(), whole.End(), b.String())
}

// swapped: two neighbours among the arguments of a call, where they can be of one type.
func (g *goFile) swapped(n *ast.CallExpr) {
	first := 0
	switch f := n.Fun.(type) {
	case *ast.Ident:
		switch f.Name {
		case "min", "max", "delete":
			return
		case "make", "append":
			first = 1
		}
	case *ast.SelectorExpr:
		if isFormat := literal(n.Args, 0) == token.STRING; isFormat && strings.HasSuffix(f.Sel.Name, "f") {
			first = 1
		}
	}
	for i := first; i < len(n.Args)-1; i++ {
		a, b := n.Args[i], n.Args[i+1]
		if n.Ellipsis.IsValid() && i+2 == len(n.Args) || (literal(n.Args, i) == token.CHAR) != (literal(n.Args, i+1) == token.CHAR) {
			continue
		}
		between := g.text[g.at(a.End()):g.at(b.Pos())]
		g.add("arguments", a.Pos(), b.End(), g.of(b)+between+g.of(a))
	}
}

// literal is the kind of a literal among arguments; ILLEGAL for what is none.
func literal(args []ast.Expr, i int) token.Token {
	if i < len(args) {
		if l, ok := args[i].(*ast.BasicLit); ok {
			return l.Kind
		}
	}
	return token.ILLEGAL
}

// answers: the other truth, or no error.
func (g *goFile) answers(n *ast.ReturnStmt) {
	for _, r := range n.Results {
		id, ok := r.(*ast.Ident)
		if !ok {
			continue
		}
		switch id.Name {
		case "true":
			g.add("answer", id.Pos(), id.End(), "false")
		case "false":
			g.add("answer", id.Pos(), id.End(), "true")
		case "err":
			g.add("answer", id.Pos(), id.End(), "nil")
		}
	}
}
