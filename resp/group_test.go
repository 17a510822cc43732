package resp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/slot"
)

// What the scripts of groups are given: the group is the key, whichever values of it the op is about.
func TestArgumentsOfValuesOfAGroup(t *testing.T) {
	const both = valueA + valueB
	op := func(kind OpKind, field string) *Op {
		return &Op{Kind: kind, Family: FamilyGroup, Key: slot.GroupOf("g", both), LeaseMs: 30000, Field: field, Count: 21}
	}
	held := slot.GroupOf("F", both)
	for want, c := range map[string]*command{
		"g|30000|" + held + "|77|0":                     {ops: []*Op{op(OpReacquire, held)}},
		"g|30000|" + held + "|77|21|1":                  {ops: []*Op{op(OpCount, held)}},
		"g|30000|" + held + "|77|21|2":                  {ops: []*Op{op(OpLeave, held)}},
		"g|30000|1|0|" + held:                           {ops: []*Op{op(OpExtend, held)}},
		"g|SPUBLISH|0|channel||77|" + both:              {ops: []*Op{op(OpForce, "channel")}},
		"g|" + valueA + "|" + valueB:                    {ops: []*Op{op(OpQueue, "")}},
		"g|g|SPUBLISH|0|0|" + held + "|1|" + "G\x00x|1": {ops: []*Op{op(OpRelease, held), op(OpRelease, "G\x00x")}},
	} {
		c.script = scriptOf(c.ops[0].Kind, FamilyGroup)
		e := envelope{wire: bareWire(capabilities{Copy: true, Greater: true}), publish: "SPUBLISH", notAfter: 77}
		built := builtOf(c, &e)
		words := built.Commands()
		require.Equal(t, c.script.sha, words[1])
		require.Equal(t, want, strings.Join(words[3:], "|"))
	}
}

// In a cluster whoever renews looks for the group, not for a key that only the engine knows.
func TestARenewalOfValuesHasTheSlotOfTheirGroup(t *testing.T) {
	r := Renewal{Family: FamilyGroup, Key: slot.GroupOf("g", valueA+valueB)}
	require.Equal(t, slot.Of("g"), r.slot())
}

// Two sets that shared an owner id would find each other's values to be their own.
func TestEachAcquireOfValuesHasAnOwnerIDOfItsOwn(t *testing.T) {
	a, b := pureOp(OpAcquire, slot.GroupOf("g", valueA), 1000), pureOp(OpAcquire, slot.GroupOf("g", valueA+valueB), 1000)
	a.Family, b.Family = FamilyGroup, FamilyGroup
	n := &Node{}
	require.Len(t, appendCommands(nil, []*Op{a, b}, make([]Result, 2), n), 2)
	ownerA, valuesA := slot.CutGroup(a.Field)
	ownerB, valuesB := slot.CutGroup(b.Field)
	require.NotEqual(t, ownerA, ownerB)
	require.Equal(t, [2]string{valueA, valueA + valueB}, [2]string{valuesA, valuesB})
	require.Equal(t, []int{1, 2}, []int{FamilyGroup.Work(a.Field), FamilyGroup.Work(b.Field)})
}
