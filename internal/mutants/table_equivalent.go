package main

import "maps"

// equivalents are generated mutants that change nothing anybody could see, by their ids, with the reason.
func equivalents() map[string]string {
	all := map[string]string{}
	for _, some := range []map[string]string{equivalentSlot()} {
		maps.Copy(all, some)
	}
	return all
}

func equivalentSlot() map[string]string {
	const file = "slot/check.go: "
	return map[string]string{
		file + `arguments: if !cluster || !strings.ContainsAny(name, "{}") { -> if !cluster || !strings.ContainsAny("{}", name) {`: "that two texts have a character in common is the same either way round",
		file + "branch: continue -> break": "one rule makes all derived names of a kind: where one of them leaves the slot, the first one does",
	}
}
