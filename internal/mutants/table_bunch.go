package main

// bunches: those granted together are renewed together, and not too many of them.
func bunches() []mutant {
	return []mutant{
		{
			"who-came-first-is-taken-last", "of a bunch that comes back some are renewed before others",
			one("renew/urgency.go", "for i := s.to - 1; i >= s.from; i-- {\n\t\t\tinto = append(into, u.fresh[i])", "for i := s.from; i < s.to; i++ {\n\t\t\tinto = append(into, u.fresh[i])"),
			"renew", "TestUrgencyGivesThoseOfOneDeadlineInTheOrderInWhichTheyCame", false,
		},
		{
			"bunches-part", "of a million holds each draws a time of its own",
			one("renew/bunch.go", "f.since != since", "true"), "renew", "TestThoseGrantedTogetherAreRenewedTogetherForEver", false,
		},
		{
			"bunches-are-cut", "the end of a call parts those that were granted together, for ever",
			one("renew/sender.go", "work > resp.MaxRenewWork-bunchMost", "work > resp.MaxRenewWork"), "renew", "TestTheEndOfACallPartsNoBunch", false,
		},
		{
			"bunches-of-strangers", "after an outage all that failed together is due together, for ever",
			one("renew/bunch.go", " || f.field != h.Field", ""), "renew", "TestAnOutageMakesNoBunches", false,
		},
		{
			"bunches-grow", "all that was ever sent together is due at one moment",
			one("renew/bunch.go", "f.size == bunchMost || ", ""), "renew", "TestHoldsTakenAtOneMomentAreRenewedOverTheWholePeriod", false,
		},
		{
			"bunches-of-any-lease", "a short lease is renewed with a long one's pauses",
			one("renew/bunch.go", " || f.lease != lease", ""), "renew", "TestABunchHasOneLease", false,
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
