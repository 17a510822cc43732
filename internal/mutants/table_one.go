package main

// oneKey breaks what a script for several keys and the one for a single key have in common, and which of them is called.
func oneKey() []mutant {
	const acquire, release, batch = "resp/scripts/acquire.lua", "resp/scripts/release.lua", "resp/batch.go"
	const acquireOne, releaseOne = "resp/scripts/acquireone.lua", "resp/scripts/releaseone.lua"
	const same = "TestAScriptForASingleKeyIsTheOtherOneForASingleKey"
	const alone = "TestAnOpThatIsAloneHasTheScriptForASingleKey"
	return []mutant{
		{
			"release-anybodys-in-a-batch", "a late release frees the next holder's lock, beside others",
			one(release, "local v = call('HDEL', key, field)", "local v = call('DEL', key)"), "resp", same, false,
		},
		{
			"no-ttl-in-a-batch", "a lock that was taken beside others is held for ever",
			one(acquire, "local ttl = call('PEXPIRE', key, lease)", "local ttl = 1"),
			"resp", "TestC017_NoScriptMakesAKeyWithoutATTL", false,
		},
		{
			"pexpire-not-undone-in-a-batch", "a refused PEXPIRE leaves a key for ever, beside others",
			one(acquire, "local undone = call('HDEL', key, field)", "local undone = 1"), "resp", same, false,
		},
		{
			"publish-must-work-in-a-batch", "where publishing is refused nothing can be released beside others",
			one(release, "v = call(publish, channel, message)", "v = redis.call(publish, channel, message)"), "resp", same, false,
		},
		{
			"another-channel-in-a-batch", "nobody hears a release beside others",
			one(release, "'redisson_lock__channel:{' .. key .. '}'", "'redisson_lock_channel:{' .. key .. '}'"), "resp", same, false,
		},
		{
			"release-needs-memory-in-a-batch", "with a full memory nothing can be released beside others",
			one(release, "local v = call('HDEL', key, field)",
				"local v = call('HINCRBY', key, field, -1)\n  if v == 0 then\n    v = call('HDEL', key, field)\n  end"),
			"resp", same, false,
		},
		{
			"not-after-ignored-in-a-batch", "a copy that comes late takes a lock that nobody knows of, beside others",
			one(acquire, "if now > tonumber(ARGV[3]) then", "if false then"),
			"resp", "TestC029_NoScriptTakesAKeyAfterItsNotAfter", false,
		},
		{
			"alone-as-several", "a lone pair costs the server half as much again",
			one(batch, "if end == start+1 && c.script.one != nil {", "if false {"), "resp", alone, false,
		},
		{
			"several-as-alone", "of some locks that are taken together only the first one is",
			one(batch, "if end == start+1 && c.script.one != nil {", "if c.script.one != nil {"), "resp", alone, false,
		},
		{
			"alone-takes-another-kind", "who takes a lock alone is told that a read-write lock is busy, and waits for it",
			one(acquireOne, "    v = -3\n", "    v = call('PTTL', key)\n"), "resp", same, false,
		},
		{
			"alone-says-another-key-is-done", "what could not be undone is told as a refusal",
			one(acquireOne, "return {now, {err =", "return {now, v} or {now, {err ="), "resp", same, false,
		},
		{
			"alone-publish-refused-is-an-error", "a lock that was released is told as one that was not",
			one(releaseOne, "if type(v) == 'table' then", "if false then"), "resp", same, false,
		},
	}
}

// oneKeyAnswers breaks what is made of the answers of a script for a single key.
func oneKeyAnswers() []mutant {
	const batch, answers = "resp/answers.go", "TestEveryAnswerForASingleKeyHasItsCode"
	return []mutant{
		{
			"alone-grants-by-any-number", "a reply that nobody gives is a grant",
			one(batch, "case c.script == scriptAcquireOne && n >= leastTime:", "case c.script == scriptAcquireOne && n > 0:"), "resp", answers, false,
		},
		{
			"alone-learns-no-time", "not-afters are made from the time of the handshake",
			one(batch, "\t\tw.est.learn(n, received)\n\t\tr.Code = CodeGranted", "\t\tr.Code = CodeGranted"), "resp", answers, false,
		},
		{
			"alone-passed-on", "a release of a plain lock is told as passed on to somebody",
			one(batch, "case c.script == scriptReleaseOne && n >= -2 && n < 0:", "case c.script == scriptReleaseOne && n < 0:"), "resp", answers, false,
		},
	}
}
