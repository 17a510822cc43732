package main

// flocks: those granted together are renewed together, and not too many of them.
func flocks() []mutant {
	return []mutant{
		{
			"who-came-first-is-taken-last", "of a flock that comes back some are renewed before others",
			one("renew/urgency.go", "for i := s.to - 1; i >= s.from; i-- {\n\t\t\tinto = append(into, u.fresh[i])", "for i := s.from; i < s.to; i++ {\n\t\t\tinto = append(into, u.fresh[i])"),
			"renew", "TestUrgencyGivesThoseOfOneDeadlineInTheOrderInWhichTheyCame", false,
		},
		{
			"flocks-part", "of a million holds each draws a time of its own",
			one("renew/flock.go", "f.since != since", "true"), "renew", "TestThoseGrantedTogetherAreRenewedTogetherForEver", false,
		},
		{
			"flocks-are-cut", "the end of a call parts those that were granted together, for ever",
			one("renew/sender.go", "work > resp.MaxRenewWork-flockMost", "work > resp.MaxRenewWork"), "renew", "TestTheEndOfACallPartsNoFlock", false,
		},
		{
			"flocks-of-strangers", "after an outage all that failed together is due together, for ever",
			one("renew/flock.go", " || f.field != h.Field", ""), "renew", "TestAnOutageMakesNoFlocks", false,
		},
		{
			"flocks-grow", "all that was ever sent together is due at one moment",
			one("renew/flock.go", "f.size == flockMost || ", ""), "renew", "TestHoldsTakenAtOneMomentAreRenewedOverTheWholePeriod", false,
		},
		{
			"flocks-of-any-lease", "a short lease is renewed with a long one's pauses",
			one("renew/flock.go", " || f.lease != lease", ""), "renew", "TestAFlockHasOneLease", false,
		},
		{
			"fields-in-the-wrong-stretch", "a hold is renewed under another's owner id",
			one("resp/batch.go", "field(end) == field(start)", "end < start+2"), "resp", "TestTheFieldOfManyRenewalsInARowIsSentOnce", false,
		},
		{
			"stretches-of-one", "of many holds of one owner id the second is renewed under a number",
			one("resp/scripts/renew.lua", "elseif left == 0 then", "elseif left < i then"), "resp", "TestRenewalsOfManyKeysUnderAFewOwnerIDs", false,
		},
		{
			"stretches-of-one-to-read", "of many readers of one owner id the second is renewed under a number",
			one("resp/scripts/fragments/renewed.lua", "elseif left == 0 then", "elseif left < i then"), "resp", "TestRenewalsOfManyKeysUnderAFewOwnerIDs", false,
		},
	}
}
