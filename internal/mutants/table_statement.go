package main

// statements: what fence.Update reads of a statement.
func statements() []mutant {
	const file, refused = "engine/fence/statement.go", "TestUpdateRefusesByNameWhatDoesNotFence"
	const read = "TestUpdateReadsStatementsOfEveryDialect"
	return []mutant{
		{
			"fence-the-other-way", "a comparison that lets only earlier holders write is taken for a fence",
			one(file, "if !turned && op == \"<=\" || turned && op == \">=\" {", "if op == \"<=\" || op == \">=\" {"),
			"engine/fence", refused, false,
		},
		{
			"fence-beside-or", "a comparison that another condition stands in for is taken for a fence",
			one(file, "\t\tif find(where, either...) >= 0 {\n", "\t\tif find(where, either...) > len(where) {\n"),
			"engine/fence", refused, false,
		},
		{
			"fence-of-another-column", "one column is stored and another compared",
			one(file, "if !r.isStored(left, column) || !r.isValue(right, column) {", "if !r.isValue(right, column) {"),
			"engine/fence", refused, false,
		},
		{
			"fence-of-another-table", "a column of the same name in another table is compared",
			one(file, "return columnOf(e) == column && (table == \"\" || slices.Contains(r.tables, table))", "return columnOf(e) == column && table == table"),
			"engine/fence", refused, false,
		},
		{
			"fence-inside-between", "the AND of a BETWEEN is taken for the comparison's",
			one(file, "\tif find(where, \"between\") >= 0 {", "\tif false {"),
			"engine/fence", refused, false,
		},
		{
			"fence-set-twice", "a column that is set to the token, and then to something else",
			one(file, "; n > 1 {\n\t\treturn \"\", refusal(\"%s is set", "; n > 9 {\n\t\treturn \"\", refusal(\"%s is set"),
			"engine/fence", refused, false,
		},
		{
			"upsert-of-two-clauses", "the first ON CONFLICT writes past the fence of the second",
			one(file, "if find(t, \"on\", \"conflict\") >= 0 || find(r.tokens[:len(r.tokens)-len(t)-3], \"do\") >= 0 {", "if find(t, \"on\", \"conflict\") >= 0 {"),
			"engine/fence", refused, false,
		},
		{
			"fence-in-what-is-run", "what one database takes for a comment another one runs",
			one(file, "\tcase r.unsure != nil:\n\t\treturn nil, nil, r.unsure\n", ""),
			"engine/fence", refused, false,
		},
		{
			"fence-of-another-value", "a column is compared with what is not the token",
			one(file, "\treturn len(e) == 1 && e[0] == theToken\n}\n\n// inserted", "\treturn len(e) == 1 && (e[0] == theToken || e[0] == theOther)\n}\n\n// inserted"),
			"engine/fence", refused, false,
		},
		{
			"upsert-of-any-row", "an INSERT whose rows do not have the token is taken for a fence",
			one(file, "return columnOf(e[2:]) == column && r.inserted(column)", "return columnOf(e[2:]) == column"),
			"engine/fence", refused, false,
		},
		{
			"second-use-is-another", "a placeholder that is used twice is counted as two",
			one(file, "\tcase err == nil:\n\t\targ = r.at(n)\n", "\tcase err == nil:\n\t\tr.marks++\n\t\targ = r.at(r.marks + 0*n)\n"),
			"engine/fence", read, false,
		},
		{
			"comments-are-conditions", "what stands in a comment is read",
			one(file, "\t\tcase strings.HasPrefix(t, \"--\"), strings.HasPrefix(t, \"/*\"):\n", "\t\tcase t == \"\":\n"),
			"engine/fence", read, false,
		},
	}
}
