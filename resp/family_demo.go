//go:build holdfast_family_demo

package resp

import _ "embed"

// FamilyDemo is a lock under another name. It shows what a further family takes: ARCHITECTURE.md, "To add a family".
// Its row and its script would stand in family.go and in scripts.go, were they not for a test only.
const FamilyDemo = familyEnd

//go:embed scripts/demo.lua
var demoText string

func init() {
	demo := newScript("demo", demoText)
	catalogue = numbered(append(catalogue, demo)...)
	families[FamilyDemo] = row{
		acquire: demo, reacquire: scriptReacquire, count: scriptReacquire, release: scriptRelease, renew: scriptRenew,
		message: unlockMessage,
	}
}
